#!/usr/bin/env bash
# The clients for Python, Node.js and Go: generated code, types, tests against a daemon and private ones, packages; and how reyn, Loom and
# docker-agent use them. $HOOKJAIL_LOOM and $HOOKJAIL_REYN name sources of these, as in tier 90.
. "$(dirname "$0")/../lib.sh"
build_tests
{ have node && have npm && have pgrep; } || { apt-get -qq update && packages nodejs npm procps; } || skip "packages cannot be installed"
belongs_to root

export AUTHOR=$CARGO_TARGET_DIR/debug/examples/author
skipped=0
check() { # DIRECTORY
  local code=0
  echo "--- $1"
  HOOKJAIL=$PROGRAM "$1/check.sh" || code=$?
  case $code in
    0) ;;
    77) part_skipped "$1"; skipped=$((skipped + 1)) ;;
    *) fail "$1" ;;
  esac
}

all=(clients/python clients/typescript clients/go examples/authors examples/reyn examples/loom)
for directory in "${all[@]}"; do check "$directory"; done
[ "$skipped" -lt ${#all[@]} ] || skip "none of them could be tried"
