#!/bin/sh
# Makes the Python package of a platform, with the programs in it: wheel.sh BINDIR TARGET_TRIPLE OUTDIR
#
# BINDIR has static `hookjail` and `hookjail-run` for the target: such a program needs no C library, so that one file is right for glibc and
# musl alike. Without programs, for other platforms: `pip wheel --no-deps clients/python`. Needs Python with pip, and a package registry.
set -eu

fail() {
  echo "FAIL: $1" >&2
  exit 1
}

[ $# = 3 ] || fail "usage: wheel.sh BINDIR TARGET_TRIPLE OUTDIR"
bindir=$(realpath "$1") target=$2
mkdir -p "$3"
outdir=$(realpath "$3")
case $target in
  x86_64-unknown-linux-musl) machine=x86_64 elf="3e 00" ;;
  aarch64-unknown-linux-musl) machine=aarch64 elf="b7 00" ;;
  *) fail "no wheel is made for $target: x86_64-unknown-linux-musl or aarch64-unknown-linux-musl" ;;
esac
for program in hookjail hookjail-run; do
  [ -x "$bindir/$program" ] || fail "$bindir/$program is missing"
  # The ELF headers must have this machine, and no interpreter, which would be one C library's.
  [ "$(od -An -tx1 -j18 -N2 "$bindir/$program" | tr -s ' ' | sed 's/^ //; s/ $//')" = "$elf" ] || fail "$program is not for $machine"
  if readelf -lW "$bindir/$program" | grep -q ' INTERP '; then fail "$program is not static"; fi
done

HOOKJAIL_WHEEL_PROGRAMS=$bindir \
HOOKJAIL_WHEEL_PLATFORM=manylinux_2_17_$machine.manylinux2014_$machine.musllinux_1_1_$machine \
  "${PYTHON:-python3}" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$outdir" "$(dirname "$0")/../clients/python"
