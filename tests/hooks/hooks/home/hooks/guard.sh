#!/bin/sh
# Stops commands with a word of the list that lies beside it.
event=$(cat)
words=$(dirname "$0")/words.txt
while read -r word; do
  case $event in *"$word"*) echo "not that: $word" >&2; exit 2 ;; esac
done <"$words"
