// Keeps the linters' rules as people have written them.
const { readFileSync } = require("node:fs");
const { basename } = require("node:path");

const KEPT = [/^eslint\.config\./, /^\.eslintrc/, /^\.prettierrc/, /^biome\.jsonc?$/, /^ruff\.toml$/, /^tsconfig.*\.json$/];
const { tool_input: input = {} } = JSON.parse(readFileSync(0, "utf8"));
if (KEPT.some((pattern) => pattern.test(basename(input.file_path ?? "")))) {
  console.error("mend the code and leave the rules");
  process.exit(2);
}
