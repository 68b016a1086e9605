#!/bin/sh
cat >/dev/null
count=$(grep -c TODO notes.txt)
printf '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "%s left to do"}}\n' "$count"
