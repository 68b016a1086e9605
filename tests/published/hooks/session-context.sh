#!/bin/sh
# Prints branch and title of the project as context.
cat >/dev/null
echo "branch: $(git symbolic-ref --short HEAD)"
head -n 1 README.md
