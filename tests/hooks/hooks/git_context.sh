#!/bin/bash
# Gives the agent the state of the repository at the start.
cat >/dev/null
echo "branch: $(git rev-parse --abbrev-ref HEAD)"
git status --short | head -n 10
git log --oneline -n 3
