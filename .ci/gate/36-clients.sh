#!/usr/bin/env bash
# The client for Python calls a daemon over its socket, and the examples for authors of runtimes decide by it. Tier 86 tests all clients.
. "$(dirname "$0")/../lib.sh"
build_tests
HOOKJAIL=$PROGRAM examples/clients/check.sh
AUTHOR=$CARGO_TARGET_DIR/debug/examples/author HOOKJAIL=$PROGRAM examples/authors/check.sh rust python
