#!/bin/bash
# Notes where each session begins, and tells the next where the last one did.
session=$(jq -r .session_id)
notes=$HOME/.claude/sessions
mkdir -p "$notes"
last=$(ls -t "$notes" | head -n 1)
[ -z "$last" ] || echo "last time: $(cat "$notes/$last")"
echo "$(git branch --show-current) $(git rev-parse --short HEAD)" >"$notes/$session.md"
