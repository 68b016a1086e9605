// Stops the first edit of each file until the agent has looked who needs it, and notes in the home which it has stopped.
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const event = JSON.parse(fs.readFileSync(0, "utf8"));
const notes = path.join(os.homedir(), ".factgate");
const note = path.join(notes, `${event.session_id}.json`);
const seen = fs.existsSync(note) ? JSON.parse(fs.readFileSync(note, "utf8")) : [];
const file = event.tool_input?.file_path;
if (file && !seen.includes(file)) {
  fs.mkdirSync(notes, { recursive: true });
  fs.writeFileSync(note, JSON.stringify([...seen, file]));
  console.error(`${file}: look who calls it, then edit it again`);
  process.exit(2);
}
