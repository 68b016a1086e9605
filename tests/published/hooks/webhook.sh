#!/bin/sh
# Posts a notice, and goes on where there is no network.
cat >/dev/null
curl --silent --max-time 2 --data done https://hooks.example.org/x || echo "not sent" >&2
