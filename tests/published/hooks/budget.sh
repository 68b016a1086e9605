#!/bin/sh
# Refuses commands once ten are counted.
cat >/dev/null
count=$(cat .budget 2>/dev/null || echo 0)
if [ "$count" -ge 10 ]; then
  echo "ten commands are enough" >&2
  exit 2
fi
echo $((count + 1)) >.budget
