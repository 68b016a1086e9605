#!/usr/bin/env bash
# `hookjail test` over small hooks of the kinds that people publish, and the examples: `check.sh HOOKJAIL`. Each case runs confined and bare, in a fresh project.
# Hooks whose program is missing are skipped by name. A control, whose cases expect something else, must fail.
set -euo pipefail
hookjail=$1
tree=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d); trap 'rm -rf "$place"' EXIT
project=$place/home/project
mkdir -p "$place/home" "$place/tmp"
cp -R "$tree/project" "$project"
cp -R "$tree/hooks" "$tree/control" "$tree/../../examples" "$project/"
export HOME=$place/home TMPDIR=$place/tmp XDG_RUNTIME_DIR=$place/tmp GIT_CONFIG_GLOBAL=/dev/null
cd "$project"
git init --quiet --initial-branch=main
git add --all
git -c user.name=check -c user.email=check@example.org commit --quiet --message begin

# Returns the programs of a file of tests that are not here.
missing() {
  local program
  sed -n 's/^# needs //p' "$1" | while read -r program; do command -v "$program" >/dev/null || echo "$program"; done
}

files=() skipped=0
for file in hooks/*.hooktest.* examples/hooks/*.hooktest.*; do
  absent=$(missing "$file")
  if [ -z "$absent" ]; then files+=("$file"); else skipped=$((skipped + 1)); echo "# SKIP $file: needs ${absent//$'\n'/, }"; fi
done
code=0
"$hookjail" test --bare --jobs $((2 * $(nproc))) --format tap "${files[@]}" >"$place/tap" || code=$?
cat "$place/tap"
[ -z "$(git status --porcelain)" ] || { git status --short; echo "FAIL: the project is not as it was" >&2; exit 1; }

# The control: each of its cases is wrong.
wrong=0
"$hookjail" test --format tap control >"$place/control" || wrong=$?
if [ "$wrong" != 1 ] || grep -q '^ok ' "$place/control"; then
  cat "$place/control"
  echo "FAIL: a wrong expectation is not found" >&2
  exit 1
fi

passed=$(grep -c '^ok ' "$place/tap" || true) failed=$(grep -c '^not ok ' "$place/tap" || true)
echo "# ${#files[@]} kinds, $skipped skipped; $passed runs as expected, $failed not; $(grep -c '^not ok ' "$place/control") of the control not, as they must"
exit "$code"
