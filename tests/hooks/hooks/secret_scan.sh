#!/bin/bash
# Looks for keys in what is not committed yet. SCAN_MODE=block ends with 1 where there are some.
set -euo pipefail
cat >/dev/null
mode=${SCAN_MODE:-warn}
logs=${SECRETS_LOG_DIR:-logs/copilot/secrets}
mkdir -p "$logs"
found=0
while IFS= read -r file; do
  if grep -qE 'AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY-----' "$file"; then
    echo "a key in $file" >&2
    printf '%s\n' "$file" >>"$logs/scan.log"
    found=1
  fi
done < <(git diff --name-only --diff-filter=ACMR HEAD; git ls-files --others --exclude-standard)
[ $found = 0 ] || [ "$mode" != block ] || exit 1
