#!/bin/bash
# Shows a notice on the desktop that the agent waits.
notify-send 'Claude Code' "$(jq -r .message)"
