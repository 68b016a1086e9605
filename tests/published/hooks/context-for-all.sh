#!/bin/sh
cat >/dev/null
echo '{"decision": "block", "reason": "format it first"}'
