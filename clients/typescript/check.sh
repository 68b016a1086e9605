#!/bin/bash
# Tests the client and its npm packages for real: types, generated code, a live daemon, private servers, the packages installed in an
# empty directory, the README's lines as printed. Installs nothing into the tree.
#
# $HOOKJAIL names a built program, which has hookjail-run beside it. Exits 77, with the reason, where the npm registry cannot be reached.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
root=$(realpath "$here/../..")
: "${HOOKJAIL:?names the built program}"
HOOKJAIL=$(realpath "$HOOKJAIL"); export HOOKJAIL
unset HOOKJAIL_ADDR

work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT

fail() { echo "FAIL: $*" >&2; exit 1; }
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }
npm() { command npm --no-audit --no-fund --no-update-notifier --cache "${npm_config_cache:-$work/cache}" "$@"; }

npm view @bufbuild/protobuf version >"$work/log" 2>&1 || { tail -n 1 "$work/log"; echo "SKIP: the npm registry cannot be reached"; exit 77; }

# The generators require a maintained Node.js. The tests run on that one, and on the oldest that the package supports. Distributions have
# older ones.
case $(uname -m) in x86_64) cpu=x64 ;; aarch64) cpu=arm64 ;; *) fail "no Node.js for $(uname -m)" ;; esac
fetched() {
  quiet npm install --prefix "$work/node-$1" "node-linux-$cpu@$1"
  echo "$work/node-$1/node_modules/node-linux-$cpu/bin"
}
oldest=$(fetched "$(sed -n 's/^ *"node": ">=\(.*\)"$/\1.0/p' "$here/package.json")")
node -e 'process.exit(process.features.typescript ? 0 : 1)' 2>/dev/null || PATH=$(fetched 22.23.3):$PATH

# --- the source tree ----------------------------------------------------------------------------------------------------

mkdir -p "$work/tree/clients" "$work/tree/docs"
cp -r "$root/proto" "$work/tree"
cp "$root/docs/api.md" "$work/tree/docs"
(cd "$here/.." && tar -c --exclude node_modules --exclude dist typescript) | tar -x -C "$work/tree/clients"
cd "$work/tree/clients/typescript"
quiet npm ci --ignore-scripts
quiet ./generate.sh "$work/gen"
diff -r "$work/gen" "$here/src/gen" || fail "src/gen is stale: generate.sh writes it anew"
echo "ok: src/gen is fresh"
quiet npm run build
quiet node_modules/.bin/tsc -p test
# Beside their sources, for the paths in them.
cp built/test/*.js test
echo "ok: types"

# --- the packages -------------------------------------------------------------------------------------------------------

quiet "$root/packaging/npm.sh" "$(dirname "$HOOKJAIL")" "$(uname -m)-unknown-linux-musl" "$work/packages"
case $(uname -m) in x86_64) other=aarch64 ;; *) other=x86_64 ;; esac
if "$root/packaging/npm.sh" "$(dirname "$HOOKJAIL")" "$other-unknown-linux-musl" "$work/other" >"$work/log" 2>&1; then
  fail "a package for $other has programs of $(uname -m)"
fi
grep -q "is no program for $other" "$work/log" || { cat "$work/log" >&2; fail "packaging/npm.sh fails for another reason"; }
echo "ok: packages"
mkdir "$work/installed" "$work/lacking"
(cd "$work/installed" && quiet npm install "$work"/packages/*.tgz)
(cd "$work/lacking" && quiet npm install --omit=optional "$work"/packages/hookjail-[0-9]*.tgz)
export HOOKJAIL_INSTALLED=$work/installed HOOKJAIL_LACKING=$work/lacking

# --- the tests ----------------------------------------------------------------------------------------------------------

for path in "$oldest:$PATH" "$PATH"; do
  echo "Node.js $(PATH=$path node --version)"
  PATH=$path node --test --test-timeout=120000 --test-reporter=spec test/*.test.js
done
