#!/usr/bin/env bash
# The README's first command in a fresh clone, as an ordinary user and as root; every command of the tutorial and of the backup page.
. "$(dirname "$0")/../lib.sh"
command=(run --contract reyn --mode shell_push --point turn_end --event examples/events/turn_end.json -- examples/hooks/decide-next.sh)
grep -qF "cargo run -- ${command[*]}" README.md || fail "the README's first command is another"

# Calls the command as given, then with --json.
check() {
  local who=$1 text json; shift
  text=$("$@" "${command[@]}")
  printf '%s: %s\n' "$who" "$text"
  grep -q wake <<<"$text" || fail "$who: the answer does not speak of wake"
  json=$("$@" --json "${command[@]}")
  [ "$(wc -l <<<"$json")" = 1 ] || fail "$who: --json is more than one line"
  jq -e '[.. | objects | select(has("wake")) | .wake] == [true]' <<<"$json" >/dev/null || fail "$who: no wake=true in $json"
}

belongs_to user
start=$SECONDS
as_user cargo build --quiet --locked --bins
echo "built in $((SECONDS - start)) s"
check user as_user cargo run --quiet --locked --
as_user env HOOKJAIL="$PROGRAM" python3 tests/tutorial/check.py docs/tutorial.md
as_user env HOOKJAIL="$PROGRAM" python3 tests/tutorial/check.py docs/backup.md tests/tutorial/before-backup.sh
[ "$(id -u)" = 0 ] || { part_skipped "as root: needs root"; exit 0; }
belongs_to root
check root "$PROGRAM"
