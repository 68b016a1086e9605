#!/bin/sh
# Removes spaces at the ends of lines.
file=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')

case $file in
  *.txt | *.md) sed -i 's/[ 	]*$//' "$file" ;;
esac
