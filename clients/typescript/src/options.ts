import type { DescMessage } from "@bufbuild/protobuf";

/** The names of all options of `T`; the compiler checks that none is missing. */
export type Names<T> = Readonly<Record<keyof T, true>>;

/** Throws a `TypeError` for an unknown option: if ignored, a misspelt profile would mean the default one. */
export function mustBeOptions<T extends object>(options: T, known: Names<T>): void {
  mustBeKnown("option", options, Object.keys(known));
}

/** Throws a `TypeError` for a field that its message, or a message inside, lacks; generated code would ignore such a field. */
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

function mustBeKnown(kind: "field" | "option", values: object, known: readonly string[]): void {
  // Every message has `$typeName` and `$unknown`.
  const unknown = Object.keys(values).find((name) => !known.includes(name) && !(kind === "field" && name.startsWith("$")));
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

/** Returns the number of letters to add, remove or replace to convert one word to the other. */
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
