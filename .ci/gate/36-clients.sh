#!/usr/bin/env bash
# The client for Python talks to a daemon over its socket. All clients, by all their tests: tier 86.
. "$(dirname "$0")/../lib.sh"
build_tests
HOOKJAIL=$PROGRAM examples/clients/check.sh
