#!/bin/sh
# Counts what is left to do, as context.
cat >/dev/null
count=$(grep -c TODO notes.txt)
printf '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "%s left to do"}}\n' "$count"
