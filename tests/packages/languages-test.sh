#!/usr/bin/env bash
# Installs the Python and the npm package as an ordinary user would, and runs a confined hook by the program that each brings. Needs the
# registries for what they depend on.
#   languages-test.sh DIRECTORY-OF-PACKAGES
set -euo pipefail
packages=$(realpath "$1")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
wrong() { echo "WRONG: $*" >&2; exit 1; }
# Neither another hookjail nor the caller's settings.
bare() { env -i HOME="$work" PATH=/usr/bin:/bin "$@" </dev/null; }
check() { # NAME BEGAN COMMAND...
  local name=$1 began=$2; shift 2
  bare "$@" run -- /bin/echo served >"$work/out" || { cat "$work/out"; wrong "$name: no hook runs"; }
  echo "FIRST HOOK: $name $((($(date +%s%N) - began) / 1000000)) ms"
  grep -q '^sandbox .*landlock, .*confirmed' "$work/out" || { cat "$work/out"; wrong "$name: not confined"; }
}

for wheel in "$packages"/*x86_64.whl; do
  [ -e "$wheel" ] || break
  began=$(date +%s%N)
  /usr/bin/python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
  check "Python package" "$began" "$work/venv/bin/hookjail"
done
for programs in "$packages"/hookjail-linux-x64-*.tgz; do
  [ -e "$programs" ] || break
  began=$(date +%s%N)
  mkdir "$work/npm"
  (cd "$work/npm" && npm install --silent --no-audit --no-fund --prefix . "${programs/hookjail-linux-x64/hookjail}" "$programs")
  check "npm package" "$began" "$work/npm/node_modules/.bin/hookjail"
done
