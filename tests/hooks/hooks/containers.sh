#!/bin/bash
# Gives the agent the names of running containers, from docker.
cat >/dev/null
curl -s -m 5 --unix-socket "${DOCKER_SOCKET:-/var/run/docker.sock}" http://docker/containers/json | jq -r '.[].Names[]'
