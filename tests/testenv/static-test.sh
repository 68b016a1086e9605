#!/usr/bin/env bash
# The static program in roots that hold nothing, a busybox and musl, or an old glibc. In each it works as elsewhere or reports
# what is missing. As root.
#   static-test.sh HOOKJAIL [OLD-TREE.tar]
# Needs busybox-static and musl-tools; OLD-TREE.tar as `vm-prepare.sh tree bullseye` makes it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1"); old=${2:-}
[ -z "$old" ] || old=$(realpath "$old")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; chmod 755 "$work"
wrong() { echo "WRONG: $*" >&2; exit 1; }

# The program asks for no interpreter and no library, as others do.
asks() { readelf -lW "$1" | grep -q INTERP || readelf -dW "$1" | grep -q NEEDED; }
asks /bin/ls || wrong "readelf shows nothing of /bin/ls"
! asks "$program" || wrong "$program is not static"

# Makes a root with the program, what is to be run, and a home for an ordinary user.
root() { # NAME
  local root=$work/$1
  install -d -m 755 "$root" "$root"/{proc,dev,run,test}; install -d -m 755 -o 1000 -g 1000 "$root/home"
  install -m 755 "$program" "$root/hookjail"
  cp -r "$here"/../../examples/{events,hooks} "$root/test/"; chmod -R go=rX "$root/test"
  echo "$root"
}

in_root() { "$here/in-root.sh" "$@" </dev/null; } # ROOT UID COMMAND...

# Every profile is confirmed, and hooks do their work, as root and as an ordinary user.
works() { # ROOT COMMAND...
  local root=$1 uid out; shift
  for uid in 0 1000; do
    in_root "$root" "$uid" /hookjail --json doctor >"$work/out" || { cat "$work/out"; wrong "$root, uid $uid: doctor"; }
    [ "$(grep -o '"confirmed":true' "$work/out" | wc -l)" = "$(in_root "$root" "$uid" /hookjail profile list | wc -l)" ] || { cat "$work/out"; wrong "$root, uid $uid: not every profile"; }
    out=$(in_root "$root" "$uid" /hookjail --json run --contract reyn --mode shell_push --point turn_end \
      --event /test/events/turn_end.json -- /test/hooks/decide-next.sh) || wrong "$root, uid $uid: $out"
    case $out in *'"wake":true'*) ;; *) wrong "$root, uid $uid: $out" ;; esac
    # The hook's own output is in the reply, in base64: 42.
    out=$(in_root "$root" "$uid" /hookjail --json run -- "$@") || wrong "$root, uid $uid: $out"
    case $out in *'"stdout":"NDIK"'*) ;; *) wrong "$root, uid $uid: $out" ;; esac
  done
}

empty=$(root empty)
in_root "$empty" 0 /hookjail --version >/dev/null || wrong "it does not start in an empty root"
# There is nothing to grant, and doctor reports that.
# shellcheck disable=SC2016
! in_root "$empty" 0 /hookjail --json doctor >"$work/out" || wrong "doctor is content with an empty root"
said='granted path `/bin` cannot be opened'
grep -q "$said" "$work/out" || { cat "$work/out"; wrong "doctor does not say: $said"; }
echo "an empty root: starts, and says what strict lacks"

musl=$(root musl)
install -d -m 755 "$musl"/{bin,lib,usr/bin}
install -m 755 "$(command -v busybox)" "$musl/bin/"; ln -s busybox "$musl/bin/sh"
# As Alpine has it: the C library is the loader, and everything else links with it.
printf '#include <stdio.h>\nint main(void) { return puts("42") < 0; }\n' >"$work/answer.c"
musl-gcc -o "$musl/usr/bin/answer" "$work/answer.c"
asks "$musl/usr/bin/answer" || wrong "musl-gcc links statically here"
loader=$(readelf -lW "$musl/usr/bin/answer" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
install -m 755 "$(realpath "$loader")" "$musl/lib/$(basename "$loader")"
[ "$(in_root "$musl" 0 /usr/bin/answer)" = 42 ] || wrong "the program linked with musl does not run without hookjail"
works "$musl" /usr/bin/answer
works "$musl" /bin/busybox echo 42
echo "busybox and musl alone: every profile confirmed, hooks run"

[ -n "$old" ] || exit 0
glibc=$(root glibc)
tar -C "$glibc" -xf "$old"; chmod 755 "$glibc"
# The control: a program that is linked with this machine's C library does not run there.
gcc -o "$glibc/usr/bin/answer" "$work/answer.c"
! in_root "$glibc" 0 /usr/bin/answer 2>"$work/out" || wrong "a program linked here runs with that glibc"
grep -q "GLIBC_" "$work/out" || { cat "$work/out"; wrong "it fails for another reason"; }
works "$glibc" /bin/echo 42
echo "an old glibc: every profile confirmed, hooks run"
