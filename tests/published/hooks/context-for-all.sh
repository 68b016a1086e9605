#!/bin/sh
# Blocks with a reason, whatever the event.
cat >/dev/null
echo '{"decision": "block", "reason": "format it first"}'
