#!/usr/bin/env bash
# Runs a command without the host's half-empty cgroup2 mount, in a mount namespace of its own. Needs root.
#   hybrid-free.sh COMMAND...
# crun refuses a host with a hybrid layout of control groups whose version 2 has a controller ("cgroups in hybrid mode not
# supported"), even with control groups disabled.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,5p' "$0"; exit 2; }
exec unshare -m --propagation private sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null || true; exec "$@"' sh "$@"
