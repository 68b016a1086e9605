#!/bin/sh
# Appends its events to the file that is named.
{ cat; printf '\n---\n'; } >>"$1"
