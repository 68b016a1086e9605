#!/bin/sh
# Refuses to drop tables.
if grep -Eq -i 'drop +(table|database)'; then
  echo "no dropped tables" >&2
  exit 2
fi
