#!/usr/bin/env bash
# Each fuzz target runs for a minute.
. "$(dirname "$0")/lib.sh"
[ -x fuzz/run-short.sh ] || fail "fuzz/run-short.sh is missing"
fuzz/run-short.sh "${FUZZ_SECONDS:-60}"
