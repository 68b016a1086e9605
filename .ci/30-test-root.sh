#!/usr/bin/env bash
# `cargo test` as root, where hooks get a uid of their own.
. "$(dirname "$0")/lib.sh"
need_root
cargo test --locked --no-fail-fast
