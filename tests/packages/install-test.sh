#!/usr/bin/env bash
# Installs a release that this script makes up, by packaging/install.sh: from a directory and over HTTP, and changed in each way that must be
# refused. As an ordinary user or root; needs curl, python3, ssh-keygen and xz.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d); server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
wrong() { echo "WRONG: $*" >&2; exit 1; }
cd "$work"
# `ssh-keygen` looks for nothing in a home of its own.
export HOME=$work/home; mkdir "$HOME"
arch=$(uname -m)

archive() { # DIRECTORY VERSION PRINTED
  local name=hookjail-$2-$arch-linux
  mkdir -p "tree/$name/bin" "tree/$name/share/man/man1"
  printf '#!/bin/sh\n[ "$1" != --version ] || echo "hookjail %s"\n' "$3" >"tree/$name/bin/hookjail"
  chmod 755 "tree/$name/bin/hookjail"
  echo page >"tree/$name/share/man/man1/hookjail.1"
  tar -C tree -cJf "$1/$name.tar.xz" "$name"
  rm -rf tree
}
sign() { # DIRECTORY KEY [NAMESPACE]
  (cd "$1" && rm -f SHA256SUMS* && sha256sum -- * >../sums && mv ../sums SHA256SUMS && ssh-keygen -q -Y sign -f "$2" -n "${3-hookjail-release}" SHA256SUMS)
}
for key in ours another; do ssh-keygen -q -t ed25519 -N '' -C "$key" -f "$work/$key"; done
echo "releases@hookjail namespaces=\"hookjail-release\" $(cut -d ' ' -f 1,2 ours.pub)" >signers
mkdir good; archive good 1.2.3 1.2.3; sign good "$work/ours"

install() { # DIRECTORY-OR-URL [ARGUMENTS...]
  local from=$1; shift
  rm -rf to; sh "$root/packaging/install.sh" --from "$from" --version 1.2.3 --signers signers --to "$work/to" "$@"
}
refused() { # NAME WORDS COMMAND...
  local name=$1 words=$2 code=0; shift 2
  "$@" >out 2>&1 || code=$?
  [ $code = 1 ] || { cat out; wrong "$name: exit code $code"; }
  grep -qF "$words" out || { cat out; wrong "$name: refused for another reason"; }
  [ ! -e to ] || wrong "$name: something was installed"
  echo "refused: $name"
}
# A copy of the good release, to be changed.
changed() { rm -rf bad; cp -r good bad; }

install good
[ "$(to/bin/hookjail --version)" = "hookjail 1.2.3" ] && [ -s to/share/man/man1/hookjail.1 ] || wrong "not all was installed"
# Again, over what is there.
sh "$root/packaging/install.sh" --from good --version 1.2.3 --signers signers --to "$work/to" >out && grep -q '^installed   hookjail 1.2.3' out || wrong "it does not install again"
! find to -name '*.new' | grep -q . || wrong "something was left"
echo "installed: from a directory"

python3 -u -m http.server --bind 127.0.0.1 --directory "$work" 0 >http 2>&1 & server=$!
for _ in $(seq 100); do grep -q 'port ' http && break; sleep 0.05; done
port=$(sed -nE 's/.* port ([0-9]+) .*/\1/p' http)
install "http://127.0.0.1:$port/good"
[ -x to/bin/hookjail ] || wrong "nothing was installed"
echo "installed: over HTTP"
refused "a release that is not there" "is not at" install "http://127.0.0.1:$port/none"

changed; printf x >>"bad/hookjail-1.2.3-$arch-linux.tar.xz"
refused "a changed archive" "another checksum" install bad
changed; printf x >>"bad/hookjail-1.2.3-$arch-linux.tar.xz"; (cd bad && sha256sum "hookjail-1.2.3-$arch-linux.tar.xz" >SHA256SUMS)
refused "a changed archive with its checksum" "signature of SHA256SUMS is not valid" install bad
changed; sign bad "$work/another"
refused "another key" "signature of SHA256SUMS is not valid" install bad
changed; sign bad "$work/ours" file
refused "our signature of something else" "signature of SHA256SUMS is not valid" install bad
changed; rm bad/SHA256SUMS.sig
refused "no signature" "SHA256SUMS.sig is not at" install bad
changed; rm -r bad; mkdir bad; archive bad 1.2.2 1.2.2; sign bad "$work/ours"
refused "an older release in its place" "does not list" install bad
mv "bad/hookjail-1.2.2-$arch-linux.tar.xz" "bad/hookjail-1.2.3-$arch-linux.tar.xz"
refused "an older archive under the new name" "does not list" install bad
rm -r bad; mkdir bad; archive bad 1.2.3 1.2.2; sign bad "$work/ours"
refused "a program of another version" "instead of 1.2.3" install bad
: >none
refused "no key" "no release key" install good --signers none
refused "this copy, which has no key" "is unknown" env HOME="$HOME" sh "$root/packaging/install.sh" --to "$work/to"

code=0; sh "$root/packaging/install.sh" --frm x 2>out || code=$?
[ $code = 2 ] && grep -q '^  install.sh' out || wrong "a wrong option: exit code $code"
echo "the installer: 2 installed, 11 refused"
