#!/usr/bin/env bash
# The .proto files keep to buf's rules, comments included, and the code in crates/proto/src is generated from them.
. "$(dirname "$0")/../lib.sh"
belongs_to user
fresh=$(mktemp -d); trap 'rm -rf "$fresh"' EXIT
[ "$(id -u)" != 0 ] || chown "$CI_USER" "$fresh"
as_user cargo run --quiet --locked --manifest-path proto/codegen/Cargo.toml -- "$fresh"
for file in "$fresh"/*; do
  cmp "$file" "crates/proto/src/$(basename "$file")" || fail "stale: cargo run --manifest-path proto/codegen/Cargo.toml writes crates/proto/src anew"
done
echo "crates/proto/src is fresh"
not_by_buf() { part_skipped "buf: $*"; exit 0; }
buf() { npm exec --yes --package=@bufbuild/buf@1 -- buf "$@"; }
have npm || not_by_buf "it comes by npm, which is not installed"
timeout 120 npm exec --yes --package=@bufbuild/buf@1 -- buf --version || not_by_buf "it cannot be fetched"
cd proto
buf lint
