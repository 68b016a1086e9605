#!/bin/sh
# Refuses commits without the number of a ticket.
event=$(cat)
case $event in
  *'git commit'*) ;;
  *) exit 0 ;;
esac
if ! printf %s "$event" | grep -Eq '[A-Z]{2,}-[0-9]+'; then
  echo "a commit names its ticket, as ABC-12" >&2
  exit 2
fi
