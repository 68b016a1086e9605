#!/bin/sh
# Stops one command by its exit code.
case $(cat) in *ran-deny-sh*) echo 'guard.sh: not that one' >&2; exit 2 ;; esac
