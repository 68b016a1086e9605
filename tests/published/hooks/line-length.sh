#!/bin/sh
# Refuses lines of more than 100 columns.
file=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')

awk -v file="$file" 'length > 100 { print file ":" FNR ": " length " columns" > "/dev/stderr"; found = 1 } END { exit found ? 2 : 0 }' "$file"
