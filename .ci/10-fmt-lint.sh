#!/usr/bin/env bash
# The code is formatted, neither clippy nor rustdoc has anything to say, and the fuzz targets' lock file, which cargo keeps by
# itself, knows every dependency.
. "$(dirname "$0")/lib.sh"
cargo fmt --check
# A test that was renamed and is still named by a document would only show in tier 30, which asks the tests themselves.
for name in $(grep -ohE '`([a-z0-9_]+::)+[a-z0-9_]+`' docs/specification.md docs/escape-matrix.md | tr -d '`' | sed 's/.*:://' | sort -u); do
  [ "$name" = name ] || grep -rqE "(fn|mod) $name\b" src tests fuzz || fail "a document names the test $name, which is not there"
done
cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items
