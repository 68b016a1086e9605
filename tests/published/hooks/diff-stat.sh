#!/bin/sh
# Shows a summary of what changed.
cat >/dev/null
echo x >>notes.txt
git diff --stat >&2
