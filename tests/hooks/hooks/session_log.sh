#!/bin/bash
# Keeps when sessions start.
set -euo pipefail
cat >/dev/null
[ "${SKIP_LOGGING:-}" != true ] || exit 0
mkdir -p logs/copilot
jq -cn --arg at "$(date -u +%FT%TZ)" --arg in "$PWD" '{at: $at, event: "sessionStart", in: $in}' >>logs/copilot/session.log
echo "logged"
