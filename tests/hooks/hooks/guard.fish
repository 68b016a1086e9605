#!/usr/bin/env fish
# Stops what throws away work.
set command (jq -r '.tool_input.command // empty')
if string match --quiet '*reset --hard*' -- $command
    echo "no reset of what is not committed" >&2
    exit 2
end
