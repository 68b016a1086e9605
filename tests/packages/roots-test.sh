#!/usr/bin/env bash
# Unpacks the tarball in the roots of distributions, by their own tools, and calls a confined hook there as an ordinary user. Then installs
# and purges the Debian package, with no systemd that runs. As root.
#   roots-test.sh TARBALL PACKAGE.deb NAME=ROOT.tar...
# Each ROOT.tar is as `vm-prepare.sh base` makes it. Before them: a root with nothing but busybox and a program linked with musl, as on Alpine;
# this needs busybox-static and musl-tools.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tarball=$(realpath "$1") package=$(realpath "$2"); shift 2
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; chmod 755 "$work"
wrong() { echo "WRONG: $*" >&2; exit 1; }
in_root() { "$here/../testenv/in-root.sh" "$@" </dev/null; } # ROOT UID COMMAND...

# Directories that a root needs to be entered, and a home for an ordinary user.
prepare() { # ROOT
  install -d -m 755 "$1" "$1"/{proc,dev,run,usr,srv}; install -d -m 755 -o 1000 -g 1000 "$1/home"
}
unpack() { rm -rf "$1"; mkdir "$1"; tar -C "$1" --exclude='./dev/*' -xf "$2"; } # ROOT ROOT.tar

check() { # NAME ROOT SHELL
  local name=$1 root=$2 shell=$3 began out code uid
  prepare "$root"
  cp "$tarball" "$root/srv/hookjail.tar.xz"
  echo secret >"$root/srv/secret"; chmod 644 "$root/srv"/*
  began=$(date +%s%N)
  in_root "$root" 0 "$shell" -c 'cd /srv && tar -C /usr --strip-components 1 -xJf hookjail.tar.xz' || wrong "$name: it cannot be unpacked"
  in_root "$root" 1000 hookjail run -- "$shell" -c 'echo served' >"$work/out" || { cat "$work/out"; wrong "$name: no hook runs"; }
  echo "FIRST HOOK: tarball, $name $((($(date +%s%N) - began) / 1000000)) ms"
  grep -q '^sandbox .*landlock, .*confirmed' "$work/out" || { cat "$work/out"; wrong "$name: not confined"; }
  # The same as a user and as root: a hook cannot read a file that is readable without hookjail.
  for uid in 0 1000; do
    out=$(in_root "$root" "$uid" "$shell" -c 'read -r line </srv/secret && echo "$line"')
    [ "$out" = secret ] || wrong "$name, uid $uid: the secret cannot be read without hookjail"
    code=0
    out=$(in_root "$root" "$uid" hookjail run --mirror -- "$shell" -c 'read -r line </srv/secret && echo "$line"' 2>"$work/err") || code=$?
    [ "$code" != 0 ] && [ "$code" != 125 ] || { cat "$work/err"; wrong "$name, uid $uid: it ended with $code"; }
    case $out in *secret*) wrong "$name, uid $uid: a hook read what it may not" ;; esac
    grep -q 'Permission denied\|can.t open' "$work/err" || { cat "$work/err"; wrong "$name, uid $uid: it failed for another reason"; }
    in_root "$root" "$uid" hookjail --json doctor >"$work/out" || { cat "$work/out"; wrong "$name, uid $uid: not every profile is confirmed"; }
  done
  echo "$name: unpacked, a hook ran, the other was denied, every profile confirmed"
}

bare=$work/bare
install -d -m 755 "$bare"/{bin,lib,usr/bin}
install -m 755 "$(command -v busybox)" "$bare/bin/"
for name in sh tar xz; do ln -s busybox "$bare/bin/$name"; done
printf '#include <stdio.h>\nint main(void) { return puts("42") < 0; }\n' >"$work/answer.c"
musl-gcc -o "$bare/usr/bin/answer" "$work/answer.c"
loader=$(readelf -lW "$bare/usr/bin/answer" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
[ -n "$loader" ] || wrong "musl-gcc links statically here"
install -m 755 "$(realpath "$loader")" "$bare/lib/$(basename "$loader")"
check "busybox and musl" "$bare" /bin/sh
[ "$(in_root "$bare" 1000 hookjail run --mirror -- /usr/bin/answer)" = 42 ] || wrong "a hook linked with musl does not run"

# Traces of an installation: files, users, groups.
state() { # ROOT
  find "$1" \( -path "$1/var/lib/dpkg" -o -path "$1/var/log" -o -path "$1/proc" -o -path "$1/dev" \) -prune -o -printf '%M %U %G %P %l\n' | LC_ALL=C sort
  cat "$1/etc/passwd" "$1/etc/group"
}

install_and_purge() { # NAME ROOT
  local name=$1 root=$2
  as_root() { in_root "$root" 0 /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
  prepare "$root"
  cp "$package" "$root/srv/hookjail.deb"
  # The first one leaves copies of files that the tools keep (/etc/group-).
  as_root /bin/sh -c 'groupadd some && groupdel some'
  state "$root" >"$work/before"
  as_root dpkg --install /srv/hookjail.deb >"$work/out" 2>&1 || { cat "$work/out"; wrong "$name: the package cannot be installed"; }
  grep -q '^hookjail:' "$root/etc/group" || wrong "$name: the package makes no group"
  [ ! -e "$root/etc/systemd/system/sockets.target.wants/hookjail.socket" ] || wrong "$name: the package enables the socket"
  [ "$(in_root "$root" 1000 hookjail run --mirror -- /bin/echo served)" = served ] || wrong "$name: no hook runs"
  as_root dpkg --purge hookjail >"$work/out" 2>&1 || { cat "$work/out"; wrong "$name: the package cannot be purged"; }
  # A user's daemon keeps its state in the user's home.
  rm -rf "$root/home"/.[!.]*
  state "$root" >"$work/after"
  diff "$work/before" "$work/after" || wrong "$name: a purge leaves this"
  echo "$name: the package installed and purged"
}

for pair; do
  name=${pair%%=*} root=$work/root
  unpack "$root" "${pair#*=}"
  check "$name" "$root" /bin/sh
  unpack "$root" "${pair#*=}"
  install_and_purge "$name" "$root"
done
