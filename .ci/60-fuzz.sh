#!/usr/bin/env bash
# Each fuzz target runs for half a minute, and hooks make system calls made up by chance for a minute. With single elements taken
# out of the policy, these must find something, each within a minute.
. "$(dirname "$0")/lib.sh"
[ -x fuzz/run-short.sh ] || fail "fuzz/run-short.sh is missing"
seconds=${FUZZ_SECONDS:-60}
fuzz/run-short.sh $((seconds / 2))
HOOKJAIL_FUZZ_SECONDS=$seconds PROPTEST_CASES=60 cargo test --locked --test spec escape_fuzz -- --nocapture
cargo test --locked --features weaken --test spec escape_fuzz::an_element -- --nocapture
