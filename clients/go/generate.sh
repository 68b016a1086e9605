#!/bin/sh
# Writes hookjailpb anew, from the descriptors in crates/proto/src and with the generators in Debian 13's packages.
set -eu
cd "$(dirname "$0")"
. ./toolchain.sh
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
toolchain "$work"
generate .
