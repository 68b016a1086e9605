#!/bin/sh
mkdir -p .log
printf '%s %s\n' "$(date -u +%FT%TZ)" "$(tr -d '\n')" >>.log/commands
