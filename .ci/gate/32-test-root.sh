#!/usr/bin/env bash
# The same tests as root, where hooks get a uid of their own, with those that need root and those in containers of crun.
# Tier 52 has the tests whose result no uid changes.
. "$(dirname "$0")/../lib.sh"
need_root
build_tests
belongs_to root
files_in_memory
tests_at_once
export HOOKJAIL_MAY_SKIP=$ROWS_NOT_HERE
# Of the tiers 34 and 65, 55, 60, and 80.
left=(mutation:: escape_fuzz::an_element with_landlock_6:: with_runc:: with_cgroup:: with_cgroup_and_weakened::)
"$(tests_of seatbelt)" --ignored
for crate in "${OF_A_UID[@]}"; do
  # shellcheck disable=SC2046
  unit_tests "$crate" --include-ignored $(printf -- '--skip %s ' "${MODELS[@]}")
done
# shellcheck disable=SC2046
"$(tests_of lib)" --include-ignored $(printf -- '--skip %s ' "${MODELS[@]}")
# shellcheck disable=SC2046
"$(tests_of spec)" --include-ignored $(printf -- '--skip %s ' "${left[@]}" "${SAME_AS_ROOT[@]}")
# Of the chapters that were left out, what only root can run.
"$(tests_of spec)" --ignored "${SAME_AS_ROOT[@]/%/as_root::}"
