#!/usr/bin/env bash
# Prints for each name that a release would have in a registry whether somebody else has it: `free`, `TAKEN`, or `not looked up`.
# Exit code 1: a name is taken.
set -uo pipefail
cd "$(dirname "$0")/.."

# Looks a name up, by the words that each tool prints for a name that exists and for a missing one.
ask() { # TOOL NAME
  local printed
  case $1 in
    cargo) printed=$(cd / && timeout 60 cargo info --quiet --registry crates-io "$2" 2>&1); set -- '^version: ' 'could not find' ;;
    npm) printed=$(cd / && timeout 60 npm view "$2" version 2>&1); set -- '^[0-9]' 'E404' ;;
    pip) printed=$(cd / && timeout 60 python3 -m pip index versions "$2" 2>&1); set -- '^Available versions' 'No matching distribution' ;;
  esac
  if grep -q "$1" <<<"$printed"; then echo TAKEN
  elif grep -q "$2" <<<"$printed"; then echo free
  else echo 'not looked up'; fi
}

taken=0
for pair in "cargo itoa hookjail hookjail-base hookjail-builtins hookjail-client hookjail-contract hookjail-daemon hookjail-journal
    hookjail-policy hookjail-proto hookjail-sandbox hookjail-sys" "npm is-number hookjail @hookjail/linux-x64 @hookjail/linux-arm64" "pip six hookjail"; do
  read -r -d '' -a names <<<"$pair" || true
  tool=${names[0]}
  # A tool that does not find a name which certainly exists is no evidence about the others.
  control=$(ask "$tool" "${names[1]}")
  for name in "${names[@]:2}"; do
    state='not looked up'
    [ "$control" != TAKEN ] || state=$(ask "$tool" "$name")
    [ "$state" != TAKEN ] || taken=1
    printf '%-5s  %-24s  %s\n' "$tool" "$name" "$state"
  done
done
exit $taken
