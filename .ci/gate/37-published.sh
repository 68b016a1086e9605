#!/usr/bin/env bash
# `hookjail test` over some 70 small hooks of the kinds that people publish, confined and bare, and a control that must fail.
. "$(dirname "$0")/../lib.sh"
build_tests
have shellcheck || [ "$(id -u)" != 0 ] || packages shellcheck || part_skipped "the hook that calls shellcheck"
as_user tests/published/check.sh "$PROGRAM"
