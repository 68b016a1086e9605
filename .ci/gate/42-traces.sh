#!/usr/bin/env bash
# Traces as OpenTelemetry's own messages have them: from a daemon, and through a collector.
. "$(dirname "$0")/../lib.sh"
build_tests
python_with tests/observability/traces-requirements.txt || skip "the receiver's and the collector's packages cannot be had"
"$PYTHON" tests/observability/traces.py "$PROGRAM"
