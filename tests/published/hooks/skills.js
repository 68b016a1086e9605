#!/usr/bin/env node
// Names the page that fits the prompt.
const { prompt = "" } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const skills = { deploy: "docs/deploy.md", release: "docs/release.md" };
for (const [word, path] of Object.entries(skills)) if (prompt.includes(word)) console.log(`Read ${path} first.`);
