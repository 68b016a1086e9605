#!/usr/bin/env bash
# A daemon for one minute at 80 % of its capacity: every answer right, no resource held in the end.
. "$(dirname "$0")/../lib.sh"
build_tests
belongs_to user
python_with tests/deploy/requirements.txt || skip "Python packages cannot be had"
as_user env HOOKJAIL="$PROGRAM" timeout 300 "$PYTHON" tests/deploy/soak.py 60
