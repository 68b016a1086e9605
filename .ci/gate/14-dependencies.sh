#!/usr/bin/env bash
# Licences, sources, duplicates and bans of the dependencies; advisories where their database can be fetched.
. "$(dirname "$0")/../lib.sh"
CARGO_DENY=0.20.2
tools=$CI_WORK/cargo-deny-$CARGO_DENY
# Not optimised: the build takes a minute, and a check still a second.
[ -x "$tools/bin/cargo-deny" ] ||
  CARGO_TARGET_DIR=$CI_WORK/cargo-deny.target cargo install --quiet --debug --locked --root "$tools" cargo-deny@$CARGO_DENY
rm -rf "$CI_WORK/cargo-deny.target"
as_user "$tools/bin/cargo-deny" --locked --offline check -D unmatched-skip -D unnecessary-skip bans licenses sources
# Another repository, which no package registry offers.
if timeout 60 "$tools/bin/cargo-deny" --locked fetch db >/dev/null 2>&1; then "$tools/bin/cargo-deny" --locked check advisories
else part_skipped "advisories: their database cannot be fetched"; fi
