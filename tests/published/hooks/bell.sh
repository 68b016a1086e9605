#!/bin/sh
cat >/dev/null
printf '\a' >&2
