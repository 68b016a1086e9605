#!/bin/sh
# Refuses to prune volumes.
if grep -Eq 'docker (system|volume) prune'; then
  echo "no pruned volumes" >&2
  exit 2
fi
