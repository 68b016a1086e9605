#!/bin/sh
cat >/dev/null
echo "branch: $(git symbolic-ref --short HEAD)"
head -n 1 README.md
