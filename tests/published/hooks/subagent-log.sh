#!/bin/sh
cat >/dev/null
echo "a subagent is done" >>agents.log
