#!/bin/bash
# Tells the agent which containers run, as docker has it.
cat >/dev/null
curl -s -m 5 --unix-socket "${DOCKER_SOCKET:-/var/run/docker.sock}" http://docker/containers/json | jq -r '.[].Names[]'
