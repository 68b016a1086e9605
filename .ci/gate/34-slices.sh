#!/usr/bin/env bash
# A slice of tier 65: every sixteenth element of the policy is removed, and a test must notice each.
. "$(dirname "$0")/../lib.sh"
need_root
build_tests
belongs_to root
files_in_memory
HOOKJAIL_MUTANTS=16 "$(tests_of spec)" --include-ignored mutation:: --nocapture --test-threads 1
