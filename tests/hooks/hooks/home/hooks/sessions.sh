#!/bin/bash
# Notes where each session begins, and gives the next session the last note.
session=$(jq -r .session_id)
notes=$HOME/.claude/sessions
mkdir -p "$notes"
last=$(ls -t "$notes" | head -n 1)
[ -z "$last" ] || echo "last time: $(cat "$notes/$last")"
echo "$(git branch --show-current) $(git rev-parse --short HEAD)" >"$notes/$session.md"
