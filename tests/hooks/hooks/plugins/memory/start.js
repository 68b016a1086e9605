// Starts a server for all sessions, where none runs.
const { spawn } = require("node:child_process");
const { join } = require("node:path");

const child = spawn(process.execPath, [join(__dirname, "server.js")], { detached: true, stdio: "ignore" });
child.unref();
