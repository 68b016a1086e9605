#!/bin/sh
# Installs a release of hookjail for one user, without root, after its signature and checksums are verified.
#   install.sh [--from URL-OR-DIRECTORY] [--signers FILE] [--to DIRECTORY] [--version VERSION]
# Without options: the version that this script came with, from its release page, into ~/.local. Needs Linux on x86_64 or aarch64,
# tar, xz, sha256sum and ssh-keygen, and curl unless `--from` is a directory.
# Exit code 0: installed. 1: refused or failed, and nothing was changed. 2: wrong use.
set -eu
umask 022

# Filled in when a release is made (packaging/release.sh).
version=''
page=''
signers=''

refuse() { echo "install.sh: $*" >&2; exit 1; }

from='' to=$HOME/.local file=''
while [ $# -gt 0 ]; do
  [ $# -gt 1 ] || { sed -n '3,5s/^# //p' "$0" >&2; exit 2; }
  case $1 in
    --from) from=$2 ;;
    --signers) file=$2 ;;
    --to) to=$2 ;;
    --version) version=$2 ;;
    *) sed -n '3,5s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
[ -n "$version" ] || refuse "the version is unknown; name it by --version"
[ -n "$from" ] || { [ -n "$page" ] && from=$page/v$version; } || refuse "the source is unknown; name it by --from"
[ -z "$file" ] || signers=$(cat "$file")
[ -n "$signers" ] || refuse "this copy has no release key; name the file of SECURITY.md by --signers"

[ "$(uname -s)" = Linux ] || refuse "there are no programs for $(uname -s); build them from a clone (docs/install.md)"
case $(uname -m) in
  x86_64 | amd64) arch=x86_64 ;;
  aarch64 | arm64) arch=aarch64 ;;
  *) refuse "there are no programs for $(uname -m); build them from a clone (docs/install.md)" ;;
esac
for tool in tar xz sha256sum ssh-keygen; do
  command -v "$tool" >/dev/null || refuse "$tool is missing; install it first"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
get() { # NAME
  case $from in
    *://*) curl --fail --silent --show-error --location --retry 3 --max-time 600 --output "$work/$1" "$from/$1" ;;
    *) cp "$from/$1" "$work/$1" ;;
  esac || refuse "$1 is not at $from; check the version"
}

name=hookjail-$version-$arch-linux
get SHA256SUMS
get SHA256SUMS.sig
printf '%s\n' "$signers" >"$work/signers"
ssh-keygen -Y verify -f "$work/signers" -I releases@hookjail -n hookjail-release -s "$work/SHA256SUMS.sig" \
  <"$work/SHA256SUMS" >"$work/verified" 2>&1 || { cat "$work/verified" >&2; refuse "the signature of SHA256SUMS is not valid; report it (SECURITY.md)"; }
# The signed list has one line for the archive, by its whole name: an archive of another version is another name.
grep "^[0-9a-f]\{64\}  $name\.tar\.xz\$" "$work/SHA256SUMS" >"$work/sum" || refuse "SHA256SUMS does not list $name.tar.xz; check the version"
get "$name.tar.xz"
(cd "$work" && sha256sum --check --quiet sum >&2) || refuse "$name.tar.xz has another checksum; download it again, or report it (SECURITY.md)"

mkdir "$work/tree"
tar -C "$work/tree" -xJf "$work/$name.tar.xz" || refuse "$name.tar.xz cannot be unpacked"
"$work/tree/$name/bin/hookjail" --version >"$work/version" || refuse "the program does not start on this host"
[ "$(cat "$work/version")" = "hookjail $version" ] || refuse "the program is $(cat "$work/version") instead of $version"

mkdir -p "$to/bin"
# Each program takes its place in one step: a hook that starts meanwhile finds the old one or the new one.
(cd "$work/tree/$name" && find . -type f) | while read -r path; do
  mkdir -p "$to/$(dirname "$path")"
  cp -p "$work/tree/$name/$path" "$to/$path.new" && mv -f "$to/$path.new" "$to/$path" || exit 1
done || refuse "not all files could be put into $to; free space or permissions, then run it again"

echo "installed   hookjail $version in $to/bin, signature and checksum verified"
case :$PATH: in *:$to/bin:*) ;; *) echo "next        add $to/bin to PATH" ;; esac
"$to/bin/hookjail" doctor >"$work/doctor" 2>&1 && echo 'checked     every profile is confirmed on this host' ||
  echo 'next        hookjail doctor: not every profile is confirmed on this host'
