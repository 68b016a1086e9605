#!/usr/bin/env bash
# `cargo test` as root, where hooks get a uid of their own; and the specification names only tests that exist.
. "$(dirname "$0")/lib.sh"
need_root
cargo test --locked --no-fail-fast
there=$(cargo test --locked -- --list 2>/dev/null | sed -n 's/: test$//p' | sort -u)
named=$(grep -oE '`([a-z0-9_]+::)+[a-z0-9_]+`' docs/specification.md | tr -d '`' | sed 's/^contract_fixtures:://' | sort -u)
missing=$(comm -13 <(echo "$there") <(echo "$named") | grep -v '^module::name$' || true)
[ -z "$missing" ] || fail "docs/specification.md names tests that do not exist: $missing"
