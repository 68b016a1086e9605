#!/usr/bin/env bash
# Faults while calls are made, a few rounds of each, as root, and ends of the daemon as an ordinary user too.
. "$(dirname "$0")/../lib.sh"
build_tests
files_in_memory
AS_USER+=(HOOKJAIL_FAULTS=short)
as_user "$(tests_of faults)" the_daemon
[ "$(id -u)" = 0 ] || { part_skipped "as root: needs root"; exit 0; }
belongs_to root
HOOKJAIL_FAULTS=short "$(tests_of faults)"
