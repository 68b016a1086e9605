#!/usr/bin/env bash
# Clippy on the program alone as it is installed, without test code, and rustdoc: both without a warning.
. "$(dirname "$0")/../lib.sh"
belongs_to user
as_user cargo clippy --locked --lib --bins -- -D warnings
as_user env RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items
