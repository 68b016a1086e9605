#!/usr/bin/env node
// Indents JSON.
const fs = require("node:fs");
const { file_path } = JSON.parse(fs.readFileSync(0, "utf8")).tool_input;
if (file_path.endsWith(".json")) {
  fs.writeFileSync(file_path, JSON.stringify(JSON.parse(fs.readFileSync(file_path, "utf8")), null, 2) + "\n");
}
