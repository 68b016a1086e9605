// Counts the calls of a session, and says from time to time that it may be compacted.
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const { session_id: session } = JSON.parse(fs.readFileSync(0, "utf8"));
const file = path.join(os.tmpdir(), `agent-calls-${session}`);
const count = (fs.existsSync(file) ? Number(fs.readFileSync(file, "utf8")) : 0) + 1;
fs.writeFileSync(file, String(count));
if (count % 3 === 0) console.error(`${count} calls: compact, if this part is done`);
