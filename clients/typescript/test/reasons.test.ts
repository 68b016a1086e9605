// The reasons that the types name are those that docs/api.md lists.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const read = (path: string) => readFileSync(join(import.meta.dirname, path), "utf8");

test("every reason of a refusal is a word of the type", () => {
  const [, refusals = ""] = read("../../../docs/api.md").split("\n## Refusals\n");
  const listed = [...refusals.matchAll(/^\| `([A-Z_]+)` \| `/gm)].map(([, reason]) => reason);
  const typed = [...read("../src/errors.ts").matchAll(/^  \| "([A-Z_]+)"$/gm)].map(([, reason]) => reason);
  assert(listed.length > 20, String(listed));
  assert.deepEqual(typed, listed);
});
