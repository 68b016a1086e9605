import { accessSync, constants } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";

/** Returns the path of a program of the package for this platform; undefined where that package is not installed. */
export function bundled(name: "hookjail" | "hookjail-run"): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(`@hookjail/${process.platform}-${process.arch}/bin/${name}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

/** Returns why there is no program, with the fix. */
export function missing(): string {
  const platform = `${process.platform}-${process.arch}`;
  if (!["linux-arm64", "linux-x64"].includes(platform)) {
    return `no package has the program for ${platform}; build hookjail from its sources, and name the program in $HOOKJAIL`;
  }
  return (
    `the package @hookjail/${platform} with the program is not installed, such as after --omit=optional; ` +
    `install it by npm install @hookjail/${platform}, in the version of hookjail, or name a program in $HOOKJAIL`
  );
}

/** Finds the program: the named one, $HOOKJAIL, that of the package, the first on the PATH. */
export function find(named: string | undefined): string | undefined {
  return named || process.env["HOOKJAIL"] || bundled("hookjail") || onPath("hookjail");
}

function onPath(name: string): string | undefined {
  const directories = (process.env["PATH"] ?? "").split(delimiter).filter(Boolean);
  return directories.map((directory) => join(directory, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
