#!/usr/bin/env bash
# The client for Python talks to a daemon over its socket, and examples for authors of runtimes decide by it. All clients, by all their tests: tier 86.
. "$(dirname "$0")/../lib.sh"
build_tests
HOOKJAIL=$PROGRAM examples/clients/check.sh
AUTHOR=$CARGO_TARGET_DIR/debug/examples/author HOOKJAIL=$PROGRAM examples/authors/check.sh rust python
