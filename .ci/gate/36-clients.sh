#!/usr/bin/env bash
# The clients talk to a daemon over its socket and to servers of their own, and their packages install.
. "$(dirname "$0")/../lib.sh"
build_tests
HOOKJAIL=$PROGRAM examples/clients/check.sh
HOOKJAIL=$PROGRAM clients/typescript/check.sh
