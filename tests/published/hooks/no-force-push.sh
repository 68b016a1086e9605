#!/bin/sh
# Refuses forced pushes.
if grep -Eq 'git push[^\"]* (--force|-f)\b'; then
  echo "no forced push" >&2
  exit 2
fi
