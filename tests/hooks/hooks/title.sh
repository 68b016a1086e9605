#!/bin/bash
# Has another agent find a title for the session.
prompt=$(jq -r .prompt)
mkdir -p logs
claude -p "A title of three words for: $prompt" >logs/title.txt
