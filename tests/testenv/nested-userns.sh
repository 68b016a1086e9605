#!/bin/sh
# Runs a command in a user namespace of its own, with every id as outside, in which no further one can be made. Containers, and
# hosts that keep user namespaces from ordinary users, are the same. Needs root; changes nothing outside.
#   nested-userns.sh COMMAND...
# USERNS_IDS: how many ids it has, from 0 on; all where this is not set.
set -eu
unshare --user sleep infinity &
holder=$!
trap 'kill "$holder"' EXIT
outside=$(readlink /proc/self/ns/user)
tries=0
while [ "$(readlink "/proc/$holder/ns/user")" = "$outside" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 500 ] || { echo "no user namespace can be made here" >&2; exit 77; }
  sleep 0.01
done
for map in uid_map gid_map; do echo "0 0 ${USERNS_IDS:-4294967295}" >"/proc/$holder/$map"; done
nsenter --user --target "$holder" --setuid 0 --setgid 0 sh -ec '
  echo 0 >/proc/sys/user/max_user_namespaces
  # The control: no further user namespace can be made.
  if unshare --user true 2>/dev/null; then echo "user namespaces can still be made" >&2; exit 1; fi
  exec "$@"' sh "$@"
