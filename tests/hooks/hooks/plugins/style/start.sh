#!/usr/bin/env bash
# Has the agent explain itself.
cat <<'JSON'
{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "Explain each choice in a sentence."}}
JSON
