#!/usr/bin/env bash
# The Python and the Node client talk to a daemon over its socket.
. "$(dirname "$0")/../lib.sh"
build_tests
HOOKJAIL=$PROGRAM examples/clients/check.sh
