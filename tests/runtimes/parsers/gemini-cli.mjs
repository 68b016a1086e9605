// Reads ends of hooks as Gemini CLI does: by its own runner, aggregator and gates, of which only the hook's process is played.
// Usage: gemini-cli.mjs DIRECTORY, where its package is.

import path from "node:path";
import { anything, importWith, playChildren, reading, serve } from "./common.mjs";

playChildren();
const names = ["HookSystem", "GeminiClient", "evaluateBeforeToolHook", "executeToolWithHooks"];
const bundle = path.join(process.argv[2], "bundle");
const { HookSystem, GeminiClient, evaluateBeforeToolHook, executeToolWithHooks } = await importWith(bundle, names, "gemini.js");

const points = [
  "BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeToolSelection", "SessionStart",
  "SessionEnd", "PreCompress", "Notification",
];
const hooks = Object.fromEntries(points.map((point) => [point, [{ hooks: [{ type: "command", command: "hook" }] }]]));
const config = anything({
  geminiClient: undefined,
  getHooks: () => hooks,
  getHookSystem: () => system,
  getWorkingDir: () => "/",
  getSessionId: () => "s",
  isTrustedFolder: () => true,
  sanitizationConfig: {},
  storage: anything({ getPlansDir: () => "/" }),
});
config.config = config;
const system = new HookSystem(config);
await system.initialize();

const request = () => ({ model: "m", contents: [{ role: "user", parts: [{ text: "t" }] }], config: {} });
const answer = () => ({ candidates: [{ index: 0, content: { role: "model", parts: [{ text: "t" }] } }] });
const tool = { build: (params) => ({ params }) };

/** The reading of an output that neither stops nor asks. */
function passed(output, more = {}) {
  return reading(output ? "allow" : "none", more);
}

/** The output that the aggregator made last. */
let last;
const aggregate = system.hookAggregator.aggregateResults.bind(system.hookAggregator);
system.hookAggregator.aggregateResults = (...given) => {
  last = undefined;
  const result = aggregate(...given);
  last = result.finalOutput;
  return result;
};

const readers = {
  async BeforeTool() {
    const outcome = await evaluateBeforeToolHook(config, tool, { name: "t" }, { params: { a: 1 } });
    if (outcome.status === "error") {
      return reading("stop", { reason: last.getEffectiveReason() });
    }
    const more = { rewrite: outcome.modifiedArgs, reason: last?.reason };
    return outcome.hookDecision === "ask" ? reading("ask", more) : passed(last, more);
  },
  async AfterTool() {
    const invocation = { params: {}, execute: async () => ({ llmContent: "result", returnDisplay: "" }) };
    const outcome = await executeToolWithHooks(invocation, "t", undefined, tool, undefined, {}, config, undefined, true);
    if (outcome.error) {
      return reading("stop", { reason: outcome.error.message });
    }
    return passed(last, { context: outcome.llmContent === "result" ? "" : last.getAdditionalContext(), reason: last?.reason });
  },
  async BeforeAgent() {
    const client = anything({ config, hookStateMap: new Map() });
    const outcome = await GeminiClient.prototype.fireBeforeAgentHookSafe.call(client, [{ text: "t" }], "p");
    if (outcome?.type) {
      return reading("stop", { reason: outcome.value.reason });
    }
    return passed(last, { context: outcome?.additionalContext, reason: last?.reason });
  },
  async AfterAgent() {
    const output = await system.fireAfterAgentEvent("t", "t");
    if (output?.shouldStopExecution() || output?.isBlockingDecision()) {
      return reading("stop", { reason: output.getEffectiveReason() });
    }
    return passed(output, { reason: output?.reason });
  },
  async BeforeModel() {
    const asked = request();
    const outcome = await system.fireBeforeModelEvent(asked);
    if (outcome.blocked) {
      return reading("stop", { reason: outcome.reason });
    }
    const isRewritten = outcome.modifiedContents !== undefined && Boolean(last.hookSpecificOutput?.llm_request);
    return passed(last, { rewrite: isRewritten || undefined, reason: last?.reason });
  },
  async AfterModel() {
    const given = answer();
    const outcome = await system.fireAfterModelEvent(request(), given);
    if (outcome.stopped || outcome.blocked) {
      return reading("stop", { reason: outcome.reason });
    }
    return passed(last, { rewrite: outcome.response === given ? undefined : true, reason: last?.reason });
  },
  async BeforeToolSelection() {
    await system.fireBeforeToolSelectionEvent(request());
    return passed(last);
  },
  async SessionStart() {
    const output = await system.fireSessionStartEvent("startup");
    return passed(output, { context: output?.getAdditionalContext(), reason: output?.reason });
  },
  async SessionEnd() {
    await system.fireSessionEndEvent("exit");
    return passed(last);
  },
  async PreCompress() {
    await system.firePreCompressEvent("auto");
    return passed(last);
  },
  async Notification() {
    await system.fireToolNotificationEvent({ type: "info", title: "t" });
    return passed(last);
  },
};

await serve((end) => {
  last = undefined;
  return readers[end.point]();
});
