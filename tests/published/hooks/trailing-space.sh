#!/bin/sh
file=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')

case $file in
  *.txt | *.md) sed -i 's/[ 	]*$//' "$file" ;;
esac
