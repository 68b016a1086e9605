// Formats an edited file, and says what must not stay in it: both as the configuration beside this file has it.
const { spawnSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const rules = JSON.parse(readFileSync(join(__dirname, "quality.json"), "utf8"));
const file = JSON.parse(readFileSync(0, "utf8")).tool_input.file_path;
const [program, ...words] = rules.format;
const formatted = spawnSync(program, [...words, file], { encoding: "utf8" });
const text = readFileSync(file, "utf8");
const found = Object.entries(rules.forbidden).filter(([word]) => text.includes(word));
if (formatted.status !== 0 || found.length > 0) {
  console.error([formatted.status ? formatted.stderr : "", ...found.map(([, advice]) => advice)].join("\n"));
  process.exit(2);
}
