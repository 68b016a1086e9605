#!/bin/bash
# Keeps each command beside this script.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
jq -r '.tool_input.command' >>"$here/beside.log"
