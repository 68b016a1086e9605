// Reads ends of hooks as Qwen Code does: by its own runner, aggregator and gates, of which only the hook's process is played.
// Usage: qwen-code.mjs DIRECTORY, where its package is.

import path from "node:path";
import { anything, importWith, playChildren, reading, serve } from "./common.mjs";

playChildren();
const names = [
  "HookSystem", "firePreToolUseHook", "firePostToolUseHook", "firePostToolUseFailureHook", "firePostToolBatchHook",
  "fireNotificationHook", "firePermissionRequestHook",
];
const {
  HookSystem, firePreToolUseHook, firePostToolUseHook, firePostToolUseFailureHook, firePostToolBatchHook, fireNotificationHook,
  firePermissionRequestHook,
} = await importWith(path.join(process.argv[2], "chunks"), names);

const points = [
  "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "Notification", "UserPromptSubmit", "UserPromptExpansion",
  "SessionStart", "Stop", "MessageDisplay", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd",
  "SessionDelete", "PermissionRequest", "PermissionDenied", "StopFailure", "TodoCreated", "TodoCompleted", "InstructionsLoaded",
];
const hooks = Object.fromEntries(points.map((point) => [point, [{ hooks: [{ type: "command", command: "hook" }] }]]));
const config = anything({
  getAllowedHttpHookUrls: () => [],
  getApprovalMode: () => "default",
  getHooks: () => hooks,
  getProjectHooks: () => hooks,
  getUserHooks: () => undefined,
  getExtensions: () => [],
  getProjectRoot: () => "/",
  getSessionId: () => "s",
  getTranscriptPath: () => "/t",
  getWorkingDir: () => "/",
  isTrustedFolder: () => true,
});
const system = new HookSystem(config);
await system.initialize();

/** The output that the aggregator made last, as the point's class. */
let last;
const fire = {
  PreToolUse: () => system.firePreToolUseEvent("t", {}, "i", "default"),
  PostToolUse: () => system.firePostToolUseEvent("t", {}, {}, "i", "default"),
  PostToolUseFailure: () => system.firePostToolUseFailureEvent("i", "t", {}, "e", false, "default"),
  PostToolBatch: () => system.firePostToolBatchEvent([], "default"),
  Notification: () => system.fireNotificationEvent("m", "permission_prompt", "t"),
  PermissionRequest: () => system.firePermissionRequestEvent("t", {}, "default"),
};
const bus = {
  async request({ eventName }) {
    try {
      last = await fire[eventName]();
      return { success: true, output: last };
    } catch (error) {
      return { success: false, error };
    }
  },
};

/** The reading of the last output where nothing stops. */
function passed(more = {}) {
  const allows = last?.isAllowed ? last.isAllowed() : ["allow", "approve"].includes(last?.decision);
  return reading(allows ? "allow" : "none", { reason: last?.getPermissionDecisionReason?.() ?? last?.reason, ...more });
}

/** The text of an output for the model, or nothing where Qwen Code fails at reading one. */
function contextOf(output) {
  try {
    return output?.getAdditionalContext();
  } catch {
    return undefined;
  }
}

/** A point where a block or the end of the run stops. */
function stopping(fired) {
  return async () => {
    last = await fired();
    if (last?.finalOutput) {
      last = last.finalOutput;
    }
    if (last?.isBlockingDecision?.() || last?.shouldStopExecution?.()) {
      return reading("stop", { reason: last.getEffectiveReason() });
    }
    return passed({ context: contextOf(last) });
  };
}

/** A point where nothing stops, and of which the model may have a text. */
function telling(fired) {
  return async () => {
    last = await fired();
    return passed({ context: contextOf(last) });
  };
}

/** A point of which nothing is read. */
function silent(fired) {
  return async () => {
    await fired();
    return reading("none");
  };
}

function todo(fired) {
  return async () => {
    const { finalOutput } = await fired();
    return finalOutput?.decision === "block"
      ? reading("stop", { reason: finalOutput.reason || "No reason provided" })
      : reading(["allow", "approve"].includes(finalOutput?.decision) ? "allow" : "none");
  };
}

const readers = {
  async PreToolUse() {
    const outcome = await firePreToolUseHook(bus, "t", {}, "i", "default");
    if (!outcome.shouldProceed) {
      return reading(outcome.blockType === "ask" ? "ask" : "stop", { reason: outcome.blockReason });
    }
    return outcome.hookError ? reading("none") : passed({ context: outcome.additionalContext });
  },
  async PermissionRequest() {
    const outcome = await firePermissionRequestHook(bus, "t", {}, "default");
    if (!outcome.hasDecision) {
      return reading("none");
    }
    return outcome.shouldAllow
      ? reading("allow", { rewrite: outcome.updatedInput || undefined })
      : reading("stop", { reason: outcome.denyMessage });
  },
  async PostToolUse() {
    const outcome = await firePostToolUseHook(bus, "t", {}, {}, "i", "default");
    return outcome.shouldStop ? reading("stop", { reason: outcome.stopReason }) : passed({ context: outcome.additionalContext });
  },
  async PostToolUseFailure() {
    const outcome = await firePostToolUseFailureHook(bus, "i", "t", {}, "e", false, "default");
    return passed({ context: outcome.additionalContext });
  },
  async PostToolBatch() {
    const outcome = await firePostToolBatchHook(bus, []);
    return outcome.shouldStop ? reading("stop", { reason: outcome.stopReason }) : passed({ context: outcome.additionalContext });
  },
  async Notification() {
    const outcome = await fireNotificationHook(bus, "m", "permission_prompt", "t");
    return passed({ context: outcome.additionalContext });
  },
  UserPromptSubmit: stopping(() => system.fireUserPromptSubmitEvent("t")),
  UserPromptExpansion: stopping(() => system.fireUserPromptExpansionEvent("c", "", "t")),
  Stop: stopping(() => system.fireStopEvent(false, "t")),
  SubagentStop: stopping(() => system.fireSubagentStopEvent("a", "b", "/t", "t", false, "default")),
  SessionStart: telling(() => system.fireSessionStartEvent("startup", "m", "default")),
  SubagentStart: telling(() => system.fireSubagentStartEvent("a", "b", "default")),
  PreCompact: telling(() => system.firePreCompactEvent("auto", "")),
  PostCompact: silent(() => system.firePostCompactEvent("auto", "t")),
  SessionEnd: silent(() => system.fireSessionEndEvent("other")),
  PermissionDenied: silent(() => system.firePermissionDeniedEvent("t", {}, "i", "r")),
  InstructionsLoaded: silent(() => system.fireInstructionsLoadedEvent("/f", "Project", "session_start")),
  TodoCreated: todo(() => system.fireTodoCreatedEvent("i", "t", "pending", [], "validation")),
  TodoCompleted: todo(() => system.fireTodoCompletedEvent("i", "t", "pending", [], "validation")),
};

await serve((end) => {
  last = undefined;
  return readers[end.point]();
});
