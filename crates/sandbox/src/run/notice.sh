#!/bin/sh
# Hands a notice over to hookjail: how many arguments there are, the name of this program, and the arguments.
printf '%s\0' "$#" "${0##*/}" "$@" >>"${HOOKJAIL_NOTICES:?is not set; keep it in the environment}"
