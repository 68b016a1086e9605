#!/bin/sh
# Refuses a source without a test beside it.
file=$(jq -r '.tool_input.file_path // ""')
case $file in
  src/*.py) ;;
  *) exit 0 ;;
esac
test="tests/test_$(basename "$file")"
if [ ! -e "$test" ]; then
  echo "write $test first" >&2
  exit 2
fi
