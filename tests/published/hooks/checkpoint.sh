#!/bin/sh
# Commits all that there is as a checkpoint.
cat >/dev/null
echo 1 >checkpoint.txt
git add -A && git -c user.name=hook -c user.email=hook@example.org commit --quiet -m checkpoint >&2 &&
  git log --format=%s -n 1 >&2
