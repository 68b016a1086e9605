#!/usr/bin/env bash
# The Python and the Node client talk to a daemon over its socket.
. "$(dirname "$0")/lib.sh"
[ -x examples/clients/check.sh ] || fail "examples/clients/check.sh is missing"
build_release
HOOKJAIL=$RELEASE examples/clients/check.sh
