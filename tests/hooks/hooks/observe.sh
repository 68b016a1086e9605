#!/bin/bash
# Keeps what was done where the system has data of the user's.
data=${XDG_DATA_HOME:-$HOME/.local/share}/observer
mkdir -p "$data"
jq -c '{tool: .tool_name, input: .tool_input.command}' >>"$data/observations.jsonl"
