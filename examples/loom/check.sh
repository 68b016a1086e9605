#!/bin/bash
# Runs the example with the real Loom, which no registry has: $HOOKJAIL_LOOM names a git tree of https://github.com/ownware-ai/ownware
# with the commit of tests/runtimes/versions.txt. Installs nothing into the tree.
#
# $HOOKJAIL names a built program, which has hookjail-run beside it. Exits 77, with the reason, where Loom or the npm registry is not there.
set -euo pipefail
root=$(realpath "$(dirname "$0")/../..")
: "${HOOKJAIL:?names the built program}"
HOOKJAIL=$(realpath "$HOOKJAIL"); export HOOKJAIL
skip() { echo "SKIP: $*"; exit 77; }
fail() { echo "FAIL: $*" >&2; exit 1; }
commit=$(awk '$1 == "loom" { print $3 }' "$root/tests/runtimes/versions.txt")
[ -n "${HOOKJAIL_LOOM:-}" ] || skip "HOOKJAIL_LOOM names no source tree"
git -c safe.directory='*' -C "$HOOKJAIL_LOOM" cat-file -e "$commit" 2>/dev/null || skip "HOOKJAIL_LOOM names no git tree with $commit"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }
npm() { command npm --no-audit --no-fund --no-update-notifier --ignore-scripts --cache "${npm_config_cache:-$work/cache}" "$@"; }
npm view esbuild version >"$work/log" 2>&1 || { tail -n 1 "$work/log"; skip "the npm registry cannot be reached"; }
if ! node -e 'process.exit(process.features.typescript ? 0 : 1)' 2>/dev/null; then
  case $(uname -m) in x86_64) cpu=x64 ;; aarch64) cpu=arm64 ;; *) fail "no Node.js for $(uname -m)" ;; esac
  quiet npm install --prefix "$work/node" "node-linux-$cpu@22.23.3"
  PATH=$work/node/node_modules/node-linux-$cpu/bin:$PATH
fi

# Loom in one file, beside what it reads, as if it were installed.
mkdir "$work/source" "$work/app"
git -c safe.directory='*' -C "$HOOKJAIL_LOOM" archive "$commit" packages/loom | tar -x -C "$work/source"
source=$work/source/packages/loom
mapfile -t dependencies < <(node -p 'Object.entries(JSON.parse(fs.readFileSync(0)).dependencies).map((it) => it.join("@")).join("\n")' <"$source/package.json")
esbuild=$(awk '$1 == "esbuild" { print $2 "@" $3 }' "$root/tests/runtimes/versions.txt")
quiet "$root/packaging/npm.sh" "$(dirname "$HOOKJAIL")" "$(uname -m)-unknown-linux-musl" "$work/packages"
quiet npm install --prefix "$work/app" "${dependencies[@]}" "$esbuild" "$work"/packages/*.tgz
loom=$work/app/node_modules/@ownware/loom
mkdir -p "$loom"
cp "$source/src/provider/models.dev.json" "$loom"
quiet "$work/app/node_modules/.bin/esbuild" "$source/src/index.ts" --bundle --platform=node --format=esm --packages=external "--outfile=$loom/index.js"
echo '{"name": "@ownware/loom", "type": "module", "main": "index.js"}' >"$loom/package.json"
cp "$root"/examples/loom/*.mjs "$work/app"
node --test --test-timeout=120000 --test-reporter=spec "$work/app/check.mjs"
