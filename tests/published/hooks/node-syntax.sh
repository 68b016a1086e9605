#!/bin/sh
# Refuses JavaScript that Node.js cannot parse.
file=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')

case $file in
  *.js) node --check "$file" >&2 || exit 2 ;;
esac
