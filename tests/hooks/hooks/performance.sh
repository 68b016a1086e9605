#!/bin/bash
# Keeps when commands ended and how much memory the hook's shell has, as a table in the home.
command=$(jq -r '.tool_input.command // empty')
memory=$(ps -o rss= -p $$ | tr -d ' ')
echo "$(date +%s),$memory,$command" >>~/.claude/performance.csv
