import type { DescMessage } from "@bufbuild/protobuf";

/** The names of all options of `T`, of which the compiler misses none. */
export type Names<T> = Readonly<Record<keyof T, true>>;

/** Throws a `TypeError` for an option that is not known: left out, a misspelt profile would be the default one. */
export function mustBeOptions<T extends object>(options: T, known: Names<T>): void {
  mustBeKnown("option", options, Object.keys(known));
}

/** Throws a `TypeError` for a field that its message lacks, here or in messages inside, which generated code leaves out. */
export function mustBeFields(schema: DescMessage, fields: unknown): void {
  if (typeof fields !== "object" || fields === null) return;
  const known = schema.members.map(({ localName }) => localName);
  mustBeKnown("field", fields, known);
  for (const { fieldKind, localName, message } of schema.fields) {
    const value = (fields as Record<string, unknown>)[localName];
    if (!message || !value) continue;
    for (const inner of fieldKind === "message" ? [value] : Object.values(value)) mustBeFields(message, inner);
  }
}

function mustBeKnown(kind: "field" | "option", given: object, known: readonly string[]): void {
  // `$typeName` and `$unknown` are those of every message.
  const unknown = Object.keys(given).find((name) => !known.includes(name) && !(kind === "field" && name.startsWith("$")));
  if (unknown === undefined) return;
  const near = nearest(unknown, known);
  throw new TypeError(`unknown ${kind} \`${unknown}\`; ${near ? `did you mean \`${near}\`?` : `use one of ${known.join(", ")}`}`);
}

/** Returns the known name that differs in the fewest letters, if these are at most a third. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const distances = known.map((one) => distance(name.toLowerCase(), one.toLowerCase()));
  const least = Math.min(...distances);
  return least <= name.length / 3 ? known[distances.indexOf(least)] : undefined;
}

/** Returns how many letters must be added, taken away or replaced to make one word of the other. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...one].entries()) {
    const next = [index + 1];
    for (const [column, counterpart] of [...other].entries()) {
      const replaced = row[column]! + (letter === counterpart ? 0 : 1);
      next.push(Math.min(replaced, row[column + 1]! + 1, next[column]! + 1));
    }
    row = next;
  }
  return row[other.length]!;
}
