#!/usr/bin/env bash
# The policy with one element taken out at a time: something must notice each. `MUTANTS=1` tries all, here every fourth.
. "$(dirname "$0")/lib.sh"
need_root
files_in_memory
HOOKJAIL_MUTANTS=${MUTANTS:-4} cargo test --locked --features weaken --test spec mutation -- --nocapture --test-threads 1
