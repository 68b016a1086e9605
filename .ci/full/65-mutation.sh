#!/usr/bin/env bash
# The policy with one element removed at a time: a test must notice each. Every fourth; `MUTANTS=1` tries all.
. "$(dirname "$0")/../lib.sh"
need_root
build_tests
belongs_to root
files_in_memory
HOOKJAIL_MUTANTS=${MUTANTS:-4} "$(tests_of spec)" --include-ignored mutation:: --nocapture --test-threads 1
