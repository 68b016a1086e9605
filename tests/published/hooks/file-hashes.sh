#!/bin/sh
# Keeps the digests of edited files.
file=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')

sha256sum "$file" >>hashes.txt
