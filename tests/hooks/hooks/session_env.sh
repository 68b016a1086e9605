#!/bin/bash
# Sets a variable for the agent's later commands.
cat >/dev/null
[ -z "${CLAUDE_ENV_FILE:-}" ] || echo 'export BUILD_TARGET=debug' >>"$CLAUDE_ENV_FILE"
