#!/usr/bin/env zsh
# Stops what throws away work, and says what is not committed.
event=$(cat)
if [[ $event == *"reset --hard"* ]]; then
  cat >&2 <<END
kept: $(git status --short | wc -l) files that are not committed
END
  exit 2
fi
