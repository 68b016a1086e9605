// Answers what is asked of the memory, until it is ended.
const { mkdirSync, writeFileSync } = require("node:fs");

mkdirSync("logs", { recursive: true });
writeFileSync("logs/server.pid", String(process.pid));
setTimeout(() => {}, 30000);
