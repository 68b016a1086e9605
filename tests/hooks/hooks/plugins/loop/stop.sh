#!/bin/bash
# Repeats the agent's task until its answer has the word, or up to a maximum of rounds.
set -euo pipefail
state=.claude/loop.local.md
[ -f "$state" ] || exit 0
event=$(cat)
round=$(sed -n 's/^round: //p' "$state")
most=$(sed -n 's/^most: //p' "$state")
transcript=$(jq -r .transcript_path <<<"$event")
if [ "$round" -ge "$most" ] || [ ! -f "$transcript" ]; then rm "$state"; exit 0; fi
last=$(grep '"role":"assistant"' "$transcript" | tail -n 1 | jq -r '.message.content[0].text')
case $last in *DONE*) rm "$state"; exit 0 ;; esac
sed "s/^round: .*/round: $((round + 1))/" "$state" >"$state.$$"
mv "$state.$$" "$state"
task=$(awk '/^---$/ { n++; next } n >= 2' "$state")
jq -n --arg task "$task" --arg said "round $((round + 1))" '{decision: "block", reason: $task, systemMessage: $said}'
