#!/usr/bin/env bash
# Each fuzz target for half a minute, and random syscalls for a minute, which must find something where elements of the policy are removed.
. "$(dirname "$0")/../lib.sh"
have c++ || packages g++
seconds=${FUZZ_SECONDS:-60}
build_tests
spec=$(tests_of spec)
as_user fuzz/run-short.sh $((seconds / 2))
belongs_to root
HOOKJAIL_FUZZ_SECONDS=$seconds PROPTEST_CASES=60 "$spec" escape_fuzz --nocapture
"$spec" --include-ignored escape_fuzz::an_element --nocapture
