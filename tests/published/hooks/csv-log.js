#!/usr/bin/env node
// Logs calls as CSV.
const fs = require("node:fs");
const event = JSON.parse(fs.readFileSync(0, "utf8"));
fs.appendFileSync("calls.csv", `${Date.now()},${event.tool_name}\n`);
