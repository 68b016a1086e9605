#!/bin/sh
cat >/dev/null
echo x >>notes.txt
git diff --stat >&2
