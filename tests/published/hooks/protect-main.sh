#!/bin/sh
# Refuses commits and pushes on the main branch.
event=$(cat)
case $event in
  *'git commit'* | *'git push'*) ;;
  *) exit 0 ;;
esac
if [ "$(git symbolic-ref --short HEAD)" = main ]; then
  echo "main is protected; make a branch" >&2
  exit 2
fi
