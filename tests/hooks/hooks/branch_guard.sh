#!/bin/bash
# Denies commits to the main branch.
command=$(jq -r '.tool_input.command // empty')
branch=$(git branch --show-current)
case $command in *"git commit"*) if [ "$branch" = main ]; then echo "make a branch first" >&2; exit 2; fi ;; esac
