#!/bin/bash
# Keeps the last words of each subagent, from the transcript.
event=$(cat)
transcript=$(jq -r .transcript_path <<<"$event")
mkdir -p logs
{ echo "## $(jq -r .agent_id <<<"$event")"; tail -n 1 "$transcript" | jq -r '.message.content[0].text'; } >>logs/subagents.md
