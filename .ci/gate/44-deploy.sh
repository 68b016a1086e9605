#!/usr/bin/env bash
# What is in deploy/: manifests against their schemas, daemons behind HAProxy of which one is killed, a journal that rsyslog ships.
. "$(dirname "$0")/../lib.sh"
[ "$(id -u)" = 0 ] && ! { have haproxy && have rsyslogd && have openssl; } && { apt_lists; packages haproxy rsyslog openssl; }
{ have haproxy && have rsyslogd && have openssl; } || skip "needs haproxy, rsyslog and openssl"
build_tests
python_with tests/deploy/requirements.txt || skip "Python packages cannot be had"
as_user env HOOKJAIL="$PROGRAM" tests/deploy/manifests.sh "$PYTHON"
as_user env HOOKJAIL="$PROGRAM" "$PYTHON" tests/deploy/shipped.py
as_user env HOOKJAIL="$PROGRAM" "$PYTHON" tests/deploy/balanced.py
