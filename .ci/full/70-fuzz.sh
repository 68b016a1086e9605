#!/usr/bin/env bash
# Each fuzz target for half a minute, system calls made up by chance for a minute; with elements of the policy taken out these find something.
. "$(dirname "$0")/../lib.sh"
have c++ || packages g++
seconds=${FUZZ_SECONDS:-60}
build_tests
spec=$(tests_of spec)
as_user fuzz/run-short.sh $((seconds / 2))
belongs_to root
HOOKJAIL_FUZZ_SECONDS=$seconds PROPTEST_CASES=60 "$spec" escape_fuzz --nocapture
"$spec" --include-ignored escape_fuzz::an_element --nocapture
