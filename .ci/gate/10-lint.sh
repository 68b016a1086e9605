#!/usr/bin/env bash
# Formatting, clippy, and complete lock files. Tier 48 has clippy without test code, and rustdoc.
. "$(dirname "$0")/../lib.sh"
belongs_to user
as_user cargo fmt --all --check
as_user cargo fmt --check --manifest-path proto/codegen/Cargo.toml
# A test that was renamed and is still named by a document would only show in tier 30, which asks the tests themselves.
for name in $(grep -ohE '`([a-z0-9_]+::)+[a-z0-9_]+`' docs/specification.md docs/escape-matrix.md docs/reliability.md | tr -d '`' | sed 's/.*:://' | sort -u); do
  [ "$name" = name ] || grep -rqE "(fn|mod) $name\b|^ *$name\b" crates src tests fuzz || fail "a document names the test $name, which is not there"
done
twice=$(grep -oE '^- \*\*[A-Z]+[0-9]+\*\*' docs/specification.md | sort | uniq -d)
[ -z "$twice" ] || fail "promises with one number: $twice"
if systemd-analyze --help 2>/dev/null | grep -q -e --offline; then
  tests/testenv/exposure.sh systemd
else
  part_skipped "how much the units leave open: needs systemd-analyze of systemd 252"
fi
as_user cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
as_user cargo clippy --locked --all-targets -- -D warnings
