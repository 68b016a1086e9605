#!/bin/bash
# Commits what a session has changed, and pushes it where that works.
set -euo pipefail
[ "${SKIP_AUTO_COMMIT:-}" != true ] || exit 0
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit 0
[ -n "$(git status --porcelain)" ] || { echo "nothing to commit"; exit 0; }
git add -A
git commit --no-verify -m "auto-commit: $(date '+%Y-%m-%d %H:%M:%S')"
if git push 2>/dev/null; then echo "pushed"; else echo "committed, not pushed"; fi
