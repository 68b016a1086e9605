#!/bin/sh
cat >/dev/null
mkdir -p .backup && cp notes.txt .backup/notes.txt
