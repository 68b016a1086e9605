// Loom's hooks in hookjail.

/** How much later Loom's own timer is: it leaves a late hook behind, which hookjail ends with all of its processes. */
const MARGIN = 2_000;

/**
 * Returns a hook for Loom's HookRegistry that runs a shell command as Loom does, confined.
 *
 * What is refused, and any other call without an answer, is thrown, which Loom takes as a block with that message as the reason.
 */
export function jailed(client, { name, command, timeoutMs = 5_000, ...options }) {
  const [timeout, deadline] = [timeoutMs, timeoutMs + MARGIN];
  return {
    type: "fn",
    name,
    timeoutMs: deadline,
    async fn(event) {
      const run = await client.execute({ ...options, name, shell: command, contract: "loom", point: event.event, event, timeout, deadline });
      if (run.stops) return { continue: false, reason: run.reason };
      const { additionalContext, output } = run.verdict;
      return { continue: true, output, ...(additionalContext.length > 0 && { additionalContext: additionalContext.join("\n") }) };
    },
  };
}
