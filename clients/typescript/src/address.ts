import { existsSync, statSync } from "node:fs";
import { isAbsolute, join } from "node:path";

import { Unreachable } from "./errors.js";

const SYSTEM_SOCKET = "/run/hookjail/hookjail.sock";

type Environment = Readonly<Record<string, string | undefined>>;

/** Returns the daemon's socket: the named one, $HOOKJAIL_ADDR, else the first of the usual ones that exists. */
export function socketOf(address: string | undefined, environment: Environment, uid: number): string {
  const named = address || environment["HOOKJAIL_ADDR"];
  if (named) {
    if (/^https?:/.test(named)) throw new TypeError(`\`${named}\` is no Unix socket; name a Unix socket`);
    return named.replace(/^unix:(?:\/\/(?=\/))?/, "");
  }
  const usual = usualSockets(environment, uid);
  const found = usual.find((path) => existsSync(path));
  if (found) return found;
  throw new Unreachable(
    `no daemon listens: neither address nor $HOOKJAIL_ADDR names a socket, and there is none at ${usual.join(" or ")}; ` +
      "start one with `hookjail serve`, or use Client.private()",
  );
}

/** Returns the default sockets of daemons. Root has the system's alone: XDG_RUNTIME_DIR may be that of the user before `su`. */
export function usualSockets(environment: Environment, uid: number): string[] {
  const directory = uid === 0 ? undefined : usersDirectory(environment, uid);
  return [...(directory ? [join(directory, "hookjail.sock")] : []), SYSTEM_SOCKET];
}

function usersDirectory(environment: Environment, uid: number): string | undefined {
  const absolute = (name: string) => {
    const value = environment[name];
    return value && isAbsolute(value) ? value : undefined;
  };
  const runtime = absolute("XDG_RUNTIME_DIR") ?? usualRuntime(uid);
  if (runtime) return join(runtime, "hookjail");
  // In a container, for example, no user is logged in.
  const home = absolute("HOME");
  const state = absolute("XDG_STATE_HOME") ?? (home && join(home, ".local/state"));
  return state && join(state, "hookjail/run");
}

/** Returns systemd's runtime directory of this user, for environments that do not name it. */
function usualRuntime(uid: number): string | undefined {
  const path = `/run/user/${uid}`;
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isDirectory() && found.uid === uid && (found.mode & 0o022) === 0 ? path : undefined;
}

/**
 * Refuses a socket that is neither this user's nor root's: its daemon would get the event, and its answer would be trusted.
 *
 * Node.js does not report the listener's uid; the socket's owner is equivalent where others cannot replace the socket.
 */
export function mustBeTrusted(path: string, uid: number): void {
  const owner = statSync(path, { throwIfNoEntry: false })?.uid;
  if (owner === undefined || owner === uid || owner === 0) return;
  throw new Unreachable(`the socket ${path} is of uid ${owner}, and uid ${uid} trusts only its own daemon or root's`);
}
