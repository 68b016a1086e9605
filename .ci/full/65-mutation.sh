#!/usr/bin/env bash
# The policy with one element taken out at a time: something must notice each. Every fourth; `MUTANTS=1` tries all.
. "$(dirname "$0")/../lib.sh"
need_root
build_tests
belongs_to root
files_in_memory
HOOKJAIL_MUTANTS=${MUTANTS:-4} "$(tests_of spec)" --include-ignored mutation:: --nocapture --test-threads 1
