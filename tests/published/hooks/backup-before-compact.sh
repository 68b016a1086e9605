#!/bin/sh
# Copies the notes before the conversation is compacted.
cat >/dev/null
mkdir -p .backup && cp notes.txt .backup/notes.txt
