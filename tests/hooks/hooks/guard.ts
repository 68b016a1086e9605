// Stops what removes everything.
import { readFileSync } from "node:fs";

interface Event {
  tool_input?: { command?: string };
}

const event: Event = JSON.parse(readFileSync(0, "utf8"));
if (/\brm\s+-[a-z]*r[a-z]*f/.test(event.tool_input?.command ?? "")) {
  console.error("removes everything");
  process.exit(2);
}
