#!/bin/bash
# Has the agent read the rules before its first call of a session.
session=$(jq -r .session_id)
marker=/tmp/agent-read-the-rules-${session%%-*}
[ ! -e "$marker" ] || exit 0
touch "$marker"
echo "read RULES.md, then do that again" >&2
exit 2
