#!/usr/bin/env bash
# Traces as OpenTelemetry's own messages have them: from a daemon, and through a collector.
. "$(dirname "$0")/../lib.sh"
build_tests
here=tests/observability
# Debian's Python has this in a package of its own.
python3 -c 'import ensurepip, venv' 2>/dev/null || { apt-get -qq update && packages python3-venv; } || skip "python3-venv cannot be installed"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
timeout 300 "$work/venv/bin/pip" --quiet --disable-pip-version-check install -r $here/traces-requirements.txt ||
  skip "the receiver's and the collector's packages cannot be installed"
"$work/venv/bin/python" $here/traces.py "$PROGRAM"
