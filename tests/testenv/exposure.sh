#!/usr/bin/env bash
# How much the units leave open, as systemd 252 counts it: more than here, and a directive was lost.
#   exposure.sh DIR     the directory of the units
set -euo pipefail
units=${1:?the directory of the units}
copy=$(mktemp -d); trap 'rm -rf "$copy"' EXIT
at_most() { # UNIT TENTHS
  local said
  said=$(systemd-analyze security --no-pager --offline=true --threshold="$2" "$1" 2>&1) || { echo "$said"; exit 1; }
  echo "$said" | tail -n 1
}
at_most "$units/hookjail.service" 31
# With a drop-in, whose lines come after the unit's.
with() { # DROP-IN
  sed '/^\[Install\]/,$d' "$units/hookjail.service"
  sed '1,/^\[Service\]$/d' "$units/hookjail.service.d/$1"
}
with workspaces.conf.example >"$copy/hookjail.service"
at_most "$copy/hookjail.service" 39
# For a user's unit systemd-analyze counts root and every capability, which no user has: the copy sets a user and no capability.
sed 's/^\[Service\]$/&\nUser=someone\nCapabilityBoundingSet=/' "$units/user/hookjail.service" >"$copy/hookjail.service"
at_most "$copy/hookjail.service" 45
