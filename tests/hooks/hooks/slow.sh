#!/bin/bash
# Asks a check that may hang, and stops the call where it has not answered.
command=$(jq -r '.tool_input.command // empty')
check() { [ "$1" != slow ] || sleep 30; }
export -f check
timeout 1 bash -c 'check "$1"' check "$command" || { echo "no answer in time" >&2; exit 2; }
