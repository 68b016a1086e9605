#!/bin/sh
# Runs the project's own check before a commit.
case $(cat) in
  *'git commit'*) ;;
  *) exit 0 ;;
esac
if ! found=$(sh .githooks/pre-commit 2>&1); then
  echo "the check before commits fails: $found" >&2
  exit 2
fi
