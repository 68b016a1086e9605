// Names the skills whose words are in a prompt.
import { readFileSync } from "node:fs";
import { join } from "node:path";

type Rules = Record<string, string[]>;

const { prompt } = JSON.parse(readFileSync(0, "utf8")) as { prompt: string };
const root = process.env.CLAUDE_PROJECT_DIR ?? process.cwd();
const rules: Rules = JSON.parse(readFileSync(join(root, ".claude/skills/rules.json"), "utf8"));
const found = Object.entries(rules).filter(([, words]) => words.some((word) => prompt.includes(word)));
if (found.length > 0) console.log(`use: ${found.map(([name]) => name).join(", ")}`);
