#!/usr/bin/env bash
# Faults while calls are made, many rounds of each, as root, and all that an ordinary user can inject as one.
. "$(dirname "$0")/../lib.sh"
need_root
build_tests
files_in_memory
(AS_USER+=(HOOKJAIL_FAULTS=short); as_user "$(tests_of faults)")
belongs_to root
HOOKJAIL_FAULTS=long "$(tests_of faults)"
