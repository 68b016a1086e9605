#!/bin/sh
# Keeps the agent working while tests fail.
cat >/dev/null
if ! found=$(python3 -m unittest discover -s tests -p 'broken_*.py' 2>&1); then
  echo "tests fail: $found" >&2
  exit 2
fi
