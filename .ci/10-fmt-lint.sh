#!/usr/bin/env bash
# The code is formatted, and neither clippy nor rustdoc has anything to say.
. "$(dirname "$0")/lib.sh"
cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items
