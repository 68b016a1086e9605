#!/bin/sh
# Appends each command to a log in the project.
mkdir -p .log
printf '%s %s\n' "$(date -u +%FT%TZ)" "$(tr -d '\n')" >>.log/commands
