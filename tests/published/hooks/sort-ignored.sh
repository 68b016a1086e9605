#!/bin/sh
# Sorts lists of ignored files.
file=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')

case $file in
  *.gitignore) LC_ALL=C sort -u -o "$file" "$file" ;;
esac
