#!/bin/sh
# Removes repeated blank lines of Markdown.
file=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')

case $file in
  *.md) ;;
  *) exit 0 ;;
esac
new=$(mktemp) || exit 1
awk 'NF { blank = 0 } !NF { blank++ } blank < 2' "$file" >"$new" && cat "$new" >"$file"
rm -f "$new"
