#!/bin/sh
file=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')

case $file in
  *.js) node --check "$file" >&2 || exit 2 ;;
esac
