#!/usr/bin/env bash
# Hooks of the kinds that people publish, with the tools that they call, bare, under a shipped profile and under a learnt one, judged by their effect.
. "$(dirname "$0")/../lib.sh"
need_root
. .ci/hooks.sh
try_hooks
