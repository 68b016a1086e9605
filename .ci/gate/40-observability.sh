#!/usr/bin/env bash
# A real Prometheus scrapes a live daemon. Dashboards and alerts name only its metrics, and alerts fire where they should.
. "$(dirname "$0")/../lib.sh"
build_tests
# Debian's package, unpacked and not installed: installed, it would start a service on the host.
at=$CI_WORK/prometheus
if [ ! -e "$at/ok" ]; then
  rm -rf "$at"; mkdir -p "$at/package"
  (cd "$at/package" && { apt-get -qq download prometheus || { apt_lists && apt-get -qq download prometheus; }; }) ||
    skip "Debian's package prometheus cannot be fetched"
  dpkg-deb --extract "$at"/package/*.deb "$at/tree"
  chmod -R go+rX "$at"; touch "$at/ok"
fi
as_user python3 tests/observability/check.py "$PROGRAM" "$at/tree/usr/bin/prometheus" "$at/tree/usr/bin/promtool"
[ "$(id -u)" = 0 ] || { part_skipped "as root: needs root"; exit 0; }
belongs_to root
python3 tests/observability/check.py "$PROGRAM" "$at/tree/usr/bin/prometheus" "$at/tree/usr/bin/promtool"
