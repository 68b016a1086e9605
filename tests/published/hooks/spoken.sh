#!/bin/sh
# Speaks where a program for that is there.
message=$(sed -n 's/.*"message": *"\([^"]*\)".*/\1/p')
if command -v no-such-speaker >/dev/null; then no-such-speaker "$message"; else echo "$message" >&2; fi
