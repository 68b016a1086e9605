#!/usr/bin/env bash
# `cargo test` as root, where hooks get a uid of their own; and the documents name only tests that exist.
. "$(dirname "$0")/lib.sh"
need_root
# Guile judges the Seatbelt profiles; without it their tests would only say so. Every runtime must be here, and every row of
# the escape matrix be shown; but x32 is not in every kernel, and calls nobody knows have no control.
HOOKJAIL_TEST_REQUIRE=guile HOOKJAIL_MUST_HAVE="crun podman runc" HOOKJAIL_MAY_SKIP="ESC-167 ESC-168" \
  cargo test --locked --no-fail-fast
there=$(cargo test --locked -- --list 2>/dev/null | sed -n 's/: test$//p' | sort -u)
named=$(grep -ohE '`([a-z0-9_]+::)+[a-z0-9_]+`' docs/specification.md docs/escape-matrix.md | tr -d '`' | sed -E 's/^(cli_hooks|config_fixtures|contract_fixtures|seatbelt):://' | sort -u)
missing=$(comm -13 <(echo "$there") <(echo "$named") | grep -v '^module::name$' || true)
[ -z "$missing" ] || fail "docs/specification.md or docs/escape-matrix.md names tests that do not exist: $missing"
# The matrix again, row by row, where no user namespace can be made, as in a container: some controls only a host's own root
# can show.
files_in_memory
HOOKJAIL_MAY_SKIP="ESC-068 ESC-069 ESC-150 ESC-154 ESC-161 ESC-164 ESC-167 ESC-168" tests/testenv/nested-userns.sh \
  cargo test --locked --test spec matrix -- --nocapture --test-threads 1
