#!/usr/bin/env bash
# `cargo test` as an ordinary user in a clone of his own, where hooks run under the user's uid.
. "$(dirname "$0")/lib.sh"
prepare_user
cd "$CI_WORK/user/clone"
as_user cargo test --locked --no-fail-fast
