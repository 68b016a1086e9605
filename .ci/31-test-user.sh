#!/usr/bin/env bash
# `cargo test` as an ordinary user in a clone of his own, where hooks run under the user's uid.
. "$(dirname "$0")/lib.sh"
prepare_user
cd "$CI_WORK/user/clone"
files_in_memory
# What only root can do at all has no control here.
root_only="ESC-010 ESC-068 ESC-069 ESC-153 ESC-154 ESC-161 ESC-164 ESC-171 ESC-172 ESC-173"
as_user env HOOKJAIL_TEST_REQUIRE=guile HOOKJAIL_MAY_SKIP="$root_only ESC-101 ESC-167 ESC-168" \
  cargo test --locked --no-fail-fast
# The escape matrix again, row by row, where no user namespace can be made, as in a container.
tests/testenv/nested-userns.sh "${AS_USER[@]}" env HOOKJAIL_MAY_SKIP="$root_only ESC-101 ESC-150 ESC-167 ESC-168" \
  cargo test --locked --test spec matrix -- --nocapture --test-threads 1
# Calls made up by chance, for a while, where hooks have the user's own uid.
as_user env HOOKJAIL_FUZZ_SECONDS=20 cargo test --locked --test spec escape_fuzz -- --nocapture
