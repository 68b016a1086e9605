#!/usr/bin/env bash
# As root what tier 32 leaves to the ordinary user: chapters and tests in which the uid of a hook has no part.
. "$(dirname "$0")/../lib.sh"
need_root
build_tests
belongs_to root
files_in_memory
tests_at_once
"$(tests_of lib)" --include-ignored "${MODELS[@]}"
for crate in "${OF_A_UID[@]}"; do unit_tests "$crate" --include-ignored "${MODELS[@]}"; done
"$(tests_of spec)" --include-ignored "${SAME_AS_ROOT[@]}"
for name in $(all_tests | sort -u); do
  case $name in
    lib | spec | faults) ;;
    hookjail_*) case " ${OF_A_UID[*]} " in *" ${name#hookjail_} "*) ;; *) unit_tests "${name#hookjail_}" ;; esac ;;
    *) "$(tests_of "$name")" ;;
  esac
done
