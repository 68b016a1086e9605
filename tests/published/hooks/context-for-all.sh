#!/bin/sh
# Blocks every event with a reason.
cat >/dev/null
echo '{"decision": "block", "reason": "format it first"}'
