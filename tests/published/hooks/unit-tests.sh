#!/bin/sh
# Runs the tests after an edit.
case $(cat) in
  *'"src/'*) python3 -m unittest discover -s tests -q 2>&1 | tail -n 3 >&2 ;;
  *'"tests/'*) python3 -m unittest discover -s tests -p 'broken_*.py' >&2 || exit 2 ;;
esac
