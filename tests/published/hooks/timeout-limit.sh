#!/bin/sh
# Refuses commands with a timeout of more than ten minutes.
limit=600000
asked=$(jq -r '.tool_input.timeout // 0')
if [ "$asked" -gt "$limit" ]; then
  echo "ten minutes at most" >&2
  exit 2
fi
