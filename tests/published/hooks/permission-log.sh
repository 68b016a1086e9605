#!/bin/sh
cat >/dev/null
echo "$CLAUDE_PROJECT_DIR" | grep -q . && echo asked >>asked.log
