#!/bin/bash
# Stops calls by a list of patterns where GUARD_MODE is `block`, and logs its findings.
set -euo pipefail
mode=${GUARD_MODE:-warn}
logs=${TOOL_GUARD_LOG_DIR:-logs/copilot/guard}
input=$(cat)
name=$(jq -r '.toolName // empty' <<<"$input")
arguments=$(jq -r '.toolArgs // empty' <<<"$input")
mkdir -p "$logs"
for pattern in 'rm -rf /' 'git push --force' 'DROP TABLE' 'chmod 777'; do
  if grep -qF -- "$pattern" <<<"$name $arguments"; then
    jq -cn --arg found "$pattern" --arg mode "$mode" '{found: $found, mode: $mode}' >>"$logs/guard.log"
    if [ "$mode" = block ]; then
      jq -cn --arg why "$pattern" '{permissionDecision: "deny", permissionDecisionReason: $why}'
      exit 0
    fi
    echo "found: $pattern" >&2
  fi
done
jq -cn '{mode: "clear"}' >>"$logs/guard.log"
