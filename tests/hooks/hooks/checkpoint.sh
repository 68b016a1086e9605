#!/bin/bash
# Keeps the working tree as a commit that no branch has, without touching the index.
set -euo pipefail
session=$(jq -r .session_id)
index=$(mktemp)
trap 'rm -f "$index"' EXIT
cp "$(git rev-parse --git-dir)/index" "$index"
export GIT_INDEX_FILE=$index
git add -A
commit=$(git commit-tree -p HEAD -m "before a prompt" "$(git write-tree)")
git update-ref "refs/agent/$session" "$commit"
