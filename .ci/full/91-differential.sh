#!/usr/bin/env bash
# Random ends of hooks, read by the parsers of real runtimes and by hookjail, which is never weaker. Newest ones: HOOKJAIL_RUNTIMES=newest.
. "$(dirname "$0")/../lib.sh"
need_root
build_release
. .ci/runtimes.sh
install_pinned
chmod -R go+rX "$installed"
[ -e "$installed/node" ] || skip "Node.js cannot be had"
report_changes
# A blind comparison would pass as well: one end of each runtime is read wrongly, which has to be found.
apart tests/runtimes/differential.py --tools "$tools" --ends 120 --break
apart tests/runtimes/differential.py --tools "$tools"
