#!/bin/sh
# Runs the examples for real: a daemon with examples/hookjail.toml (its paths moved to a temporary directory), both
# hooks, the client in Python, and checks what they print. Installs nothing into the tree.
#
# $HOOKJAIL names a built binary; without it one is built. Exits 77, with the reason, where a package registry cannot
# be reached; anything else that is missing or wrong is a failure.
set -eu
cd "$(dirname "$0")/../.."
root=$(pwd)
python=${PYTHON:-python3}

fail() {
  echo "FAIL: $1" >&2
  if [ -f "$work/log" ]; then cat "$work/log" >&2; fi
  exit 1
}

skip() {
  echo "SKIP: $1"
  exit 77
}

if [ -z "${HOOKJAIL:-}" ]; then
  cargo build --locked
  HOOKJAIL=${CARGO_TARGET_DIR:-target}/debug/hookjail
fi
HOOKJAIL=$(realpath "$HOOKJAIL")

work=$(mktemp -d)
chmod 755 "$work"
daemon=
finish() {
  code=$?
  if [ -n "$daemon" ]; then kill "$daemon" 2>/dev/null || :; wait "$daemon" 2>/dev/null || :; fi
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT
trap 'exit 1' INT TERM

# --- the clients' libraries -------------------------------------------------------------------------------------------

if "$python" -m venv "$work/venv" >"$work/pip.log" 2>&1; then
  client_python=$work/venv/bin/python
  install="$client_python -m pip install --disable-pip-version-check"
else
  # Debian without python3-venv.
  client_python=$python
  install="$python -m pip install --disable-pip-version-check --target $work/site"
fi
# A build leaves files beside its source.
cp -RL clients/python "$work/client"
if ! $install "$work/client" >"$work/pip.log" 2>&1; then
  if $client_python -m pip download --no-deps -d "$work/download" grpcio >/dev/null 2>&1; then
    cat "$work/pip.log" >&2
    fail "the Python client's libraries cannot be installed"
  fi
  tail -n 1 "$work/pip.log"
  skip "the Python package index cannot be reached"
fi

# --- the daemon -------------------------------------------------------------------------------------------------------

mkdir -p "$work/etc/profiles" "$work/agents"
sed -e "s|\"/run/hookjail|\"$work/run|" -e "s|\"/var/lib/hookjail|\"$work/state|" \
  -e "s|\"/etc/hookjail|\"$work/etc|" -e "s|\"/srv/agents|\"$work/agents|" \
  examples/hookjail.toml >"$work/etc/hookjail.toml"
printf %s an-example-token >"$work/etc/hook-token"
chmod 600 "$work/etc/hookjail.toml" "$work/etc/hook-token"
socket=$work/run/hookjail.sock
sh_hook=$root/examples/hooks/decide-next.sh
python_hook=$root/examples/hooks/decide_next.py

for hook in "$sh_hook" "$python_hook"; do
  "$HOOKJAIL" --config "$work/etc/hookjail.toml" allow --profile strict -- "$hook" >/dev/null ||
    fail "$hook cannot be allowed"
done

"$HOOKJAIL" --config "$work/etc/hookjail.toml" serve 2>"$work/log" &
daemon=$!
waited=0
until [ -S "$socket" ]; do
  kill -0 "$daemon" 2>/dev/null || fail "the daemon ended"
  waited=$((waited + 1))
  [ "$waited" -lt 300 ] || fail "the daemon does not listen"
  sleep 0.1
done

# --- every hook by every caller ---------------------------------------------------------------------------------------

export HOOKJAIL_PROTO="$root/proto"
push="push: The turn was about tests: run them once more before you stop. (wake: "

# expect WHO OUTPUT LINE...: each line stands in the output, in any case of letters (Python prints True).
expect() {
  who=$1 seen=$2
  shift 2
  for line; do
    printf '%s\n' "$seen" | grep -qixF -- "$line" || fail "$who: no \`$line\` in: $seen"
  done
  echo "ok: $who"
}

call_python() { PYTHONPATH=$work/site PYTHONDONTWRITEBYTECODE=1 "$client_python" examples/clients/python/client.py "$socket" "$@"; }
call_hookjail() { "$HOOKJAIL" run --connect "$socket" --json --contract reyn --mode shell_push --point turn_end --event "$@"; }

for hook in "$sh_hook" "$python_hook"; do
  name=$(basename "$hook")
  for caller in python; do
    output=$("call_$caller" examples/events/turn_end.json "$hook" 2>&1) || fail "$caller client, $name: $output"
    expect "$caller client, $name" "$output" "exit code: 0" "confirmed: true" "${push}true)"
    output=$("call_$caller" examples/events/turn_end_quiet.json "$hook" 2>&1) || fail "$caller client, $name: $output"
    case $output in *push:*) fail "$caller client, $name pushes without reason: $output" ;; esac
  done
  for event in examples/events/*.json; do
    output=$(call_hookjail "$event" -- "$hook" 2>&1) || fail "hookjail run, $name, $event: $output"
    case $output in *'"exitCode":0'*) ;; *) fail "hookjail run, $name, $event: $output" ;; esac
  done
  echo "ok: hookjail run, $name, all events"
done

# A command without a consent does not run, and the client gets the reason.
for caller in python; do
  if output=$("call_$caller" examples/events/turn_end.json /bin/true 2>&1); then
    fail "$caller client: a command that nobody allowed ran: $output"
  fi
  case $output in
    # One client prints the reason, another the code.
    *CONSENT_REQUIRED*"no consent allows this command"* | *PERMISSION_DENIED*"no consent allows this command"*)
      echo "ok: $caller client, refused"
      ;;
    *) fail "$caller client: $output" ;;
  esac
done

kill -TERM "$daemon"
wait "$daemon" || fail "the daemon ended with $?"
daemon=
[ ! -e "$socket" ] || fail "the socket is left behind"
echo "ok: the daemon stopped"
