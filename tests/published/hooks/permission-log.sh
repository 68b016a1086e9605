#!/bin/sh
# Logs that a permission was asked for.
cat >/dev/null
echo "$CLAUDE_PROJECT_DIR" | grep -q . && echo asked >>asked.log
