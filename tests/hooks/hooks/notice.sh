#!/bin/bash
# Tells the desktop that the agent waits.
notify-send 'Claude Code' "$(jq -r .message)"
