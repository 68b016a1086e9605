#!/bin/sh
# Prints the rules of the project as context.
cat >/dev/null
cat RULES.md
