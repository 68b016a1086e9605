#!/usr/bin/env bash
# Random ends of hooks, read by the parsers of real runtimes and by hookjail, which is never weaker.
. "$(dirname "$0")/../lib.sh"
need_root
build_release
tools=$CI_WORK/runtimes
[ -e "$tools/node/node_modules/node/bin/node" ] || skip "no runtimes are installed: tier 90 does that"
compare() { # OPTION…
  # No other network than a loopback of its own.
  unshare --net -- python3 tests/runtimes/differential.py --hookjail "$RELEASE" --tools "$tools" --user "$CI_USER" \
    --work "$CI_WORK/ends" "$@"
}
# A blind comparison would pass as well: one end of each runtime is read wrongly, which has to be found.
compare --ends 120 --break
compare
