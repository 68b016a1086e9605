#!/bin/bash
# Runs the examples of docs/runtime-authors.md for real, each with a daemon: an allowed call, a denied one, a hook without a consent,
# no daemon and no hookjail. Only the first may pass. Installs nothing into the tree.
#
# $HOOKJAIL names a built binary. Arguments name the examples [default: all]. Exits 77, with the reason, where one of them cannot be built.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
HOOKJAIL=$(realpath "${HOOKJAIL:?names no built hookjail}")
[ $# -gt 0 ] || set -- rust python typescript go

work=$(mktemp -d)
chmod 755 "$work"
daemon=
finish() {
  code=$?
  if [ -n "$daemon" ]; then kill "$daemon" 2>/dev/null || :; wait "$daemon" 2>/dev/null || :; fi
  chmod -R u+w "$work"; rm -rf "$work"
  exit "$code"
}
trap finish EXIT
trap 'exit 1' INT TERM
fail() { echo "FAIL: $1" >&2; [ ! -f "$work/log" ] || cat "$work/log" >&2; exit 1; }

# --- each becomes a command in $work/bin --------------------------------------------------------------------------------

mkdir "$work/bin"
make_rust() {
  [ -n "${AUTHOR:-}" ] || { cargo build --quiet --locked --example author && AUTHOR=${CARGO_TARGET_DIR:-target}/debug/examples/author; } || return 1
  ln -s "$(realpath "$AUTHOR")" "$work/bin/rust"
}
make_python() {
  python3 -m venv "$work/venv" && cp -RL clients/python "$work/python" && "$work/venv/bin/pip" install --quiet "$work/python" || return 77
  printf '#!/bin/sh\nexec %s/venv/bin/python -B %s/examples/authors/python/main.py "$@"\n' "$work" "$root" >"$work/bin/python"
}
make_typescript() {
  mkdir -p "$work/ts/clients" "$work/ts/example/node_modules"
  cp -r proto "$work/ts/"; tar -c -C clients --exclude node_modules --exclude dist typescript | tar -x -C "$work/ts/clients"
  (cd "$work/ts/clients/typescript" && npm ci --silent --ignore-scripts --no-audit --no-fund && npm run --silent build) || return 77
  cp examples/authors/typescript/main.ts "$work/ts/example/"
  ln -s "$work/ts/clients/typescript" "$work/ts/example/node_modules/hookjail"
  ln -s "$work/ts/clients/typescript/node_modules/@types" "$work/ts/example/node_modules/@types"
  echo '{"type": "module"}' >"$work/ts/example/package.json"
  (cd "$work/ts/example" && ../clients/typescript/node_modules/.bin/tsc --strict --skipLibCheck --target es2022 --lib es2023,esnext.disposable --module nodenext --types node main.ts) || return 1
  printf '#!/bin/sh\nexec node %s/ts/example/main.js "$@"\n' "$work" >"$work/bin/typescript"
}
make_go() (
  cd clients/go
  . ./toolchain.sh
  toolchain "$work/debian" || return 77
  client=$PWD
  cp "$work/debian/go.mod" "$work/debian/example.mod"
  GOFLAGS='' go mod edit -module github.com/hookjail/hookjail/examples/authors/go -require github.com/hookjail/hookjail/clients/go@v0.1.0 \
    -replace "github.com/hookjail/hookjail/clients/go=$client" "$work/debian/example.mod"
  cd ../../examples/authors/go
  [ -z "$(gofmt -l .)" ] || { gofmt -d .; return 1; }
  GOFLAGS="-modfile=$work/debian/example.mod -mod=mod -trimpath" go build -o "$work/bin/go" . || return 1
)
skipped=
for language; do
  [ "$(wc -l <"$(ls examples/authors/"$language"/main.*)")" -le 60 ] || fail "$language: more than 60 lines"
  code=0; "make_$language" >"$work/log" 2>&1 || code=$?
  case $code in
    0) chmod +x "$work/bin/$language" ;;
    77) tail -n 1 "$work/log"; echo "SKIP: $language cannot be built here"; skipped=1 ;;
    *) fail "$language cannot be built" ;;
  esac
done
rm -f "$work/log"

# --- a daemon, a project and a guard ------------------------------------------------------------------------------------

mkdir -p "$work/etc/profiles" "$work/agents/p" "$work/path" "$work/home"
sed -e "s|\"/run/hookjail|\"$work/run|" -e "s|\"/var/lib/hookjail|\"$work/state|" \
  -e "s|\"/etc/hookjail|\"$work/etc|" -e "s|\"/srv/agents|\"$work/agents|" examples/hookjail.toml >"$work/etc/hookjail.toml"
printf %s an-example-token >"$work/etc/hook-token"
chmod 600 "$work/etc/hookjail.toml" "$work/etc/hook-token"
ln -s "$HOOKJAIL" "$work/path/hookjail"
guard=$work/agents/p/guard.sh
# shellcheck disable=SC2016 # for the guard
printf '#!/bin/sh\ncase $(cat) in *"rm -rf"*) echo "no rm here" >&2; exit 2 ;; esac\n' >"$guard"
sed 's/no rm/&, says another/' "$guard" >"$work/agents/p/other.sh"
chmod 755 "$guard" "$work/agents/p/other.sh"
for call in ls 'rm -rf /'; do
  printf '{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "%s"}}' "$call" >"$work/agents/p/${call%% *}.json"
done
"$HOOKJAIL" --config "$work/etc/hookjail.toml" allow --profile workspace-ro -- "$guard" >/dev/null || fail "the guard cannot be allowed"
"$HOOKJAIL" --config "$work/etc/hookjail.toml" serve 2>"$work/log" &
daemon=$!
waited=0
until [ -S "$work/run/hookjail.sock" ]; do
  kill -0 "$daemon" 2>/dev/null || fail "the daemon ended"
  waited=$((waited + 1)); [ "$waited" -lt 300 ] || fail "the daemon does not listen"
  sleep 0.1
done

# --- every example ------------------------------------------------------------------------------------------------------

# call LANGUAGE CODE SOCKET PATH EVENT HOOK WORDS: the output has the words, and the needs where hookjail is there.
call() {
  local code=0 output
  output=$(cd "$work/agents/p" && env -i HOME="$work/home" PATH="$4:/usr/local/bin:/usr/bin:/bin" HOOKJAIL_ADDR="$3" "$work/bin/$1" "$5.json" "$work/agents/p/$6.sh" 2>&1) || code=$?
  [ "$code" = "$2" ] || fail "$1 $5 $6: exit code $code instead of $2: $output"
  case $output in *"$7"*) ;; *) fail "$1 $5 $6: no \`$7\` in: $output" ;; esac
  [ "$4" = "$work/none" ] || case $output in *"workspace-ro"*"network  "*none*sha256*"$(sha256sum <"$work/agents/p/$6.sh" | cut -d' ' -f1)"*) ;; *) fail "$1: no needs in: $output" ;; esac
}
for language; do
  [ -e "$work/bin/$language" ] || continue
  socket=$work/run/hookjail.sock
  call "$language" 0 "$socket" "$work/path" ls guard allowed
  call "$language" 2 "$socket" "$work/path" rm guard "no rm here"
  call "$language" 2 "$socket" "$work/path" ls other denied
  call "$language" 2 "$work/run/none.sock" "$work/path" ls guard denied
  call "$language" 2 "$socket" "$work/none" ls guard denied
  echo "ok: $language"
done
[ -z "$skipped" ] || exit 77
