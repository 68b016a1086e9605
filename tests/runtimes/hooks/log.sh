#!/bin/sh
# Keeps what it is told, in the file that is named.
{ cat; printf '\n---\n'; } >>"$1"
