#!/usr/bin/env bash
# The files in deploy/: manifests against their schemas, daemons behind HAProxy of which one is killed, a journal that rsyslog ships by TLS.
. "$(dirname "$0")/../lib.sh"
installed() { have haproxy && have rsyslogd && have openssl && compgen -G '/usr/lib/*/rsyslog/lmnsd_gtls.so' >/dev/null; }
[ "$(id -u)" = 0 ] && ! installed && { apt_lists; packages haproxy openssl rsyslog rsyslog-gnutls; }
installed || skip "needs haproxy, openssl, rsyslog and rsyslog-gnutls"
build_tests
python_with tests/deploy/requirements.txt || skip "Python packages cannot be had"
as_user env HOOKJAIL="$PROGRAM" tests/deploy/manifests.sh "$PYTHON"
as_user env HOOKJAIL="$PROGRAM" "$PYTHON" tests/deploy/shipped.py
as_user env HOOKJAIL="$PROGRAM" "$PYTHON" tests/deploy/balanced.py
