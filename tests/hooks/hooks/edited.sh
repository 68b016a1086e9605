#!/bin/bash
# Keeps which parts of the project a session has edited, for the checks at its end.
set -e
event=$(cat)
file=$(jq -r '.tool_input.file_path // empty' <<<"$event")
session=$(jq -r '.session_id // "default"' <<<"$event")
[[ $file == "$CLAUDE_PROJECT_DIR"/* ]] || exit 0
cache=$CLAUDE_PROJECT_DIR/.claude/edited/$session
mkdir -p "$cache"
below=${file#"$CLAUDE_PROJECT_DIR"/}
part=${below%%/*}
grep -qx "$part" "$cache/parts.txt" 2>/dev/null || echo "$part" >>"$cache/parts.txt"
