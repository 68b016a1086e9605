#!/usr/bin/env bash
# One real kernel, emulated, that confines (6.1: Landlock ABI 2) and one that refuses (Landlock disabled).
. "$(dirname "$0")/../lib.sh"
. .ci/kernels.sh
need_root
build_tests
native "$PROGRAM" 6.1 off
