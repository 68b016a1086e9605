#!/usr/bin/env bash
# The README's first command, as root, and as an ordinary user in a fresh clone.
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

# In this checkout: tier 80 runs the same release.
check root env
prepare_user
(cd "$CI_WORK/user/clone" && check user as_user)
