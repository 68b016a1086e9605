#!/usr/bin/env bash
# The code is formatted, neither clippy nor rustdoc has anything to say, and the fuzz targets' lock file, which cargo keeps by
# itself, knows every dependency.
. "$(dirname "$0")/lib.sh"
cargo fmt --check
cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items
