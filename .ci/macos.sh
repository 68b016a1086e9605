#!/usr/bin/env bash
# Apple silicon: the programs build, Seatbelt's tests pass, a confined hook runs and is denied a file, `install` confines a hook. Has not run yet.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "FAIL: $*" >&2; exit 1; }
[ "$(uname -s)" = Darwin ] || { echo "SKIP: needs macOS"; exit 77; }
cargo build --locked --bins
cargo test --locked --lib --package hookjail-sandbox --package hookjail-policy
cargo test --locked --test seatbelt
program=$PWD/target/debug/hookjail

export HOME; HOME=$(mktemp -d); trap 'rm -rf "$HOME"' EXIT
mkdir -p "$HOME/project/.claude"; cd "$HOME/project"
echo secret >"$HOME/token"
"$program" doctor || fail "a profile is not confirmed"
"$program" run -- /bin/echo served | tee out
grep -q '^sandbox .*seatbelt, .*confirmed' out || fail "a hook did not run confined"
# The same command without hookjail reads the file.
[ "$(/bin/cat "$HOME/token")" = secret ] || fail "the control cannot read the file"
code=0; "$program" run --mirror -- /bin/cat "$HOME/token" >out 2>&1 || code=$?
[ "$code" != 0 ] && ! grep -q secret out || fail "a hook read a file that no profile grants"
cat >.claude/settings.json <<'JSON'
{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "/bin/cat"}]}]}}
JSON
cp .claude/settings.json before
"$program" install claude-code --yes
grep -q hookjail .claude/settings.json || fail "install changed no line"
"$program" install claude-code --uninstall
cmp before .claude/settings.json || fail "uninstall left other bytes"
echo "macOS: confined, denied, installed and uninstalled"
