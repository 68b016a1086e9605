#!/usr/bin/env bash
# The escape matrix without user namespaces, as in a container, and with every older Landlock, simulated; random syscalls.
. "$(dirname "$0")/../lib.sh"
need_root
build_tests
spec=$(tests_of spec)
files_in_memory
# Some controls only a host's own root can show.
belongs_to root
HOOKJAIL_MAY_SKIP="ESC-068 ESC-069 ESC-150 ESC-154 ESC-161 ESC-164 $ROWS_NOT_HERE" tests/testenv/nested-userns.sh \
  "$spec" matrix --nocapture --test-threads 1
HOOKJAIL_MAY_SKIP=$ROWS_NOT_HERE "$spec" --ignored with_landlock_6::
belongs_to user
tests/testenv/nested-userns.sh "${AS_USER[@]}" env HOOKJAIL_MAY_SKIP="ESC-150 ESC-325 ESC-326 ESC-327 $ROWS_NOT_AS_USER" \
  "$spec" matrix --nocapture --test-threads 1
as_user env HOOKJAIL_MAY_SKIP="$ROWS_NOT_AS_USER" "$spec" --ignored with_landlock_6:: with_user_namespaces::
as_user "$(tests_of seatbelt)" --ignored
as_user env HOOKJAIL_FUZZ_SECONDS=20 "$spec" escape_fuzz --nocapture
