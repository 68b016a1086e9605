#!/usr/bin/env bash
# The README's first command in a fresh clone, as an ordinary user and as root.
. "$(dirname "$0")/lib.sh"
need_root
command=(run --contract reyn --mode shell_push --point turn_end --event examples/events/turn_end.json -- examples/hooks/decide-next.sh)

# Calls the command as given, then with --json.
check() {
  local who=$1 text json; shift
  text=$("$@" cargo run --quiet --locked --release -- "${command[@]}")
  printf '%s: %s\n' "$who" "$text"
  grep -q wake <<<"$text" || fail "$who: the answer does not speak of wake"
  json=$("$@" cargo run --quiet --locked --release -- --json "${command[@]}")
  [ "$(wc -l <<<"$json")" = 1 ] || fail "$who: --json is more than one line"
  jq -e '[.. | objects | select(has("wake")) | .wake] == [true]' <<<"$json" >/dev/null || fail "$who: no wake=true in $json"
}

build_release
cd "$CI_WORK/user/clone"
check user as_user
chown -R root:root .
check root env -u CARGO_TARGET_DIR
