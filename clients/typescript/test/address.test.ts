// Where a client looks for a daemon: as `hookjail run` does.
import assert from "node:assert/strict";
import { test } from "node:test";

import { socketOf, usualSockets } from "../dist/address.js";

test("a user's daemon is looked for in its runtime directory, then in its state, then the system's", () => {
  const system = "/run/hookjail/hookjail.sock";
  // No user has this number, nor a directory in /run/user.
  const uid = 4_000_000_000;
  const cases: [Record<string, string>, string[]][] = [
    [{ XDG_RUNTIME_DIR: "/run/user/7", HOME: "/home/ada" }, ["/run/user/7/hookjail/hookjail.sock", system]],
    [{ XDG_RUNTIME_DIR: "relative", HOME: "/home/ada/" }, ["/home/ada/.local/state/hookjail/run/hookjail.sock", system]],
    [{ XDG_STATE_HOME: "/state", HOME: "/home/ada" }, ["/state/hookjail/run/hookjail.sock", system]],
    [{}, [system]],
  ];
  for (const [environment, expected] of cases) assert.deepEqual(usualSockets(environment, uid), expected);
  assert.deepEqual(usualSockets({ XDG_RUNTIME_DIR: "/run/user/1000" }, 0), [system]);
});

test("an address is a path, with or without its scheme", () => {
  for (const address of ["/a/b.sock", "unix:/a/b.sock", "unix:///a/b.sock"]) assert.equal(socketOf(address, {}, 0), "/a/b.sock");
  assert.equal(socketOf("/named", { HOOKJAIL_ADDR: "/variable" }, 0), "/named");
  assert.equal(socketOf(undefined, { HOOKJAIL_ADDR: "unix:/variable" }, 0), "/variable");
  assert.throws(() => socketOf("https://host:50051", {}, 0), TypeError);
});

test("where no usual socket is there, all of them are named", () => {
  const environment = { XDG_RUNTIME_DIR: "/nonexistent" };
  assert.throws(() => socketOf(undefined, environment, 1), { name: "Unreachable", message: /\/nonexistent\/hookjail\/hookjail\.sock or \/run\/hookjail/ });
});
