#!/bin/bash
# Shows in tmux what the agent is at.
prompt=$(jq -r .prompt)
[ -z "${TMUX:-}" ] || tmux rename-window "agent: ${prompt:0:20}"
