#!/bin/bash
# Has the agent's later commands know a variable.
cat >/dev/null
[ -z "${CLAUDE_ENV_FILE:-}" ] || echo 'export BUILD_TARGET=debug' >>"$CLAUDE_ENV_FILE"
