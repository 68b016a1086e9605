#!/bin/sh
# Rings the bell.
cat >/dev/null
printf '\a' >&2
