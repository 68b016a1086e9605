#!/usr/bin/env bash
# Licences, sources, advisories and duplicates of the dependencies.
. "$(dirname "$0")/lib.sh"
# Why not install it: compiling it takes longer than all other tiers together.
have cargo-deny || skip "cargo-deny is not installed"
checks=(bans licenses sources)
# The advisory database is another repository; without it, the rest is still checked.
if timeout 60 cargo deny --locked fetch db >/dev/null 2>&1; then checks+=(advisories); else echo "not checked: advisories (database cannot be fetched)"; fi
cargo deny --locked check "${checks[@]}"
