#!/bin/sh
# Logs that a subagent is done.
cat >/dev/null
echo "a subagent is done" >>agents.log
