#!/usr/bin/env bash
# Makes what a release consists of, in target/packages, from a tree without changes: `just packages`.
#   packaging/build.sh [STEP...]     all steps, or these in this order
# HOOKJAIL_TARGETS: the targets; both where it is not set. Needs Debian 12 with Rust, advancecomp, cargo-deb, git, jq, libdeflate-tools,
# python3, xz and zstd, and clang for the other architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD out=$PWD/target/packages work=$PWD/target/packages.work
built=${CARGO_TARGET_DIR:-$root/target}
wanted=${HOOKJAIL_TARGETS-x86_64-unknown-linux-musl aarch64-unknown-linux-musl}
fail() { echo "FAIL: $*" >&2; exit 1; }
skipped() { echo "PART SKIPPED: $*"; }

git() { command git -c safe.directory='*' "$@"; }
[ -z "$(git status --porcelain)" ] || fail "the tree has changes, which no release would have: commit them first"
# Packages of a commit have the commit's time, on every machine and at every build.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); export SOURCE_DATE_EPOCH
version=$(cargo metadata --locked --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "hookjail").version')
repository=$(cargo metadata --locked --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "hookjail").repository')
export version repository

# The targets whose programs are there.
targets() { for target in $wanted; do [ ! -x "$built/$target/dist/hookjail" ] || echo "$target"; done; }
archive() { # NAME, on stdin
  tar --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --directory "$work/tar" -c "$1"
}

# The static programs.
programs() {
  local target flags own=${CARGO_HOME:-$HOME/.cargo}
  for target in $wanted; do
    [ -d "$(rustc --print target-libdir --target "$target")" ] || timeout 300 rustup target add "$target" ||
      { skipped "$target: the compiler's library for it cannot be had"; continue; }
    # Paths on this machine are private, and would make different programs of the same sources.
    flags="'--remap-path-prefix=$own=cargo', '--remap-path-prefix=$(rustc --print sysroot)=rust', '--remap-path-prefix=$root=hookjail'"
    # As in .cargo/config.toml, for a linker that is called itself.
    [ "$target" != aarch64-unknown-linux-musl ] || flags+=", '-Clink-arg=-zpack-relative-relocs'"
    CC_x86_64_unknown_linux_musl=cc CC_aarch64_unknown_linux_musl=clang CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
      cargo build --locked --profile dist --bins --target "$target" --config "target.$target.rustflags = [$flags]"
  done
  [ -n "$(targets)" ] || fail "no program could be built"
}

# Manual pages and completions: the program prints them, so they are the host's to make.
pages() {
  rm -rf target/pages
  cargo run --quiet --locked --example pages -- target/pages
  mkdir -p target/pages/completions
  cargo run --quiet --locked -- completions bash >target/pages/completions/hookjail.bash
  cargo run --quiet --locked -- completions fish >target/pages/completions/hookjail.fish
  cargo run --quiet --locked -- completions zsh >target/pages/completions/_hookjail
}

# The package's own papers, and of what is linked into the programs: each library's licence, and a list of them all.
papers() {
  local target
  mkdir -p "$work"
  cat >"$work/changelog" <<EOF
hookjail ($version-1) unstable; urgency=medium

  * See /usr/share/doc/hookjail/changelog.gz.

 -- $(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)  $(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")
EOF
  packaging/libraries.py notices $wanted >"$work/NOTICES"
  for target in $(targets); do
    packaging/libraries.py sbom "$target" >"$out/hookjail-$version-${target%%-*}-linux.cdx.json"
  done
}

deb() {
  local target
  for target in $(targets); do
    cargo deb --quiet --locked --no-build --no-strip --profile dist --target "$target" --output "$out/"
  done
}

# The files of the Debian package, for every other distribution; to be unpacked in /usr, or in ~/.local.
tarball() {
  local target name
  for target in $(targets); do
    name=hookjail-$version-${target%%-*}-linux
    rm -rf "$work/tar"; mkdir -p "$work/tar"
    dpkg-deb --fsys-tarfile "$out/hookjail_$version-1_$(debian "$target").deb" | tar -C "$work/tar" -x ./usr
    mv "$work/tar/usr" "$work/tar/$name"
    # Debian's own, and what has another name elsewhere.
    rm "$work/tar/$name/share/doc/hookjail/"{changelog.Debian.gz,changelog.gz,copyright}
    mv "$work/tar/$name/share/zsh/vendor-completions" "$work/tar/$name/share/zsh/site-functions"
    cp CHANGELOG.md LICENSE-APACHE LICENSE-MIT README.md "$work/tar/$name/share/doc/hookjail/"
    archive "$name" | xz -9e --threads=1 >"$out/$name.tar.xz"
  done
}
debian() { case $1 in x86_64-*) echo amd64 ;; aarch64-*) echo arm64 ;; *) fail "Debian's name of $1?" ;; esac }

# One image for all architectures.
image() {
  local target of=()
  for target in $(targets); do of+=("$(debian "$target")=$built/$target/dist"); done
  packaging/image/build.sh "$out/hookjail-$version-oci.tar" "${of[@]}"
}

sources() { git archive --format=tar --prefix="hookjail-$version/" HEAD | gzip -9n >"$out/hookjail-$version.tar.gz"; }

homebrew() { packaging/homebrew/formula.sh "$out/hookjail-$version.tar.gz" >"$out/hookjail.rb"; }

# Of other packages the scripts take DIRECTORY-OF-PROGRAMS TARGET OUTPUT.
# Compressed again, in the formats that pip and npm read: a thirtieth to a twentieth smaller than their own.
wheel() {
  local file
  others packaging/wheel.sh
  for file in "$out"/*.whl; do
    [ ! -e "$file" ] || advzip --recompress --shrink-normal --keep-file-time --quiet "$file"
  done
}
npm() {
  local file
  others packaging/npm.sh
  for file in "$out"/*.tgz; do
    [ -e "$file" ] || continue
    gzip -dc "$file" | libdeflate-gzip -12 >"$work/smaller.tgz"
    mv "$work/smaller.tgz" "$file"
  done
}
others() { # SCRIPT
  local target
  [ -x "$1" ] || { skipped "$1 is not there"; return 0; }
  for target in $(targets); do "$1" "$built/$target/dist" "$target" "$out"; done
}

# How large it is, and what it should be: 19 MB on a disk, 9.5 MB from the network.
sums() {
  local target file size wrong=0
  (cd "$out" && rm -f SHA256SUMS && find . -maxdepth 1 -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
  for target in $(targets); do
    for file in hookjail hookjail-run; do
      file=$built/$target/dist/$file size=$(stat -c %s "$file")
      printf '%10d  %s\n' "$size" "$target/${file##*/}"
      [ "$size" -le 19000000 ] || wrong=1
    done
  done
  for file in "$out"/*; do
    size=$(stat -c %s "$file")
    printf '%10d  %s\n' "$size" "${file##*/}"
    # The image has one architecture's layer downloaded, and lies here with all.
    case $file in *-oci.tar) size=$((size / $(targets | wc -l))) ;; esac
    [ "$size" -le 9500000 ] || wrong=1
  done
  for target in $(targets); do
    # Optimised across crates it has no asynchronous runtime, which takes milliseconds to start.
    ! grep -aq src/runtime/scheduler "$built/$target/dist/hookjail-run" || fail "hookjail-run of $target has an asynchronous runtime"
    grep -aq src/runtime/scheduler "$built/$target/dist/hookjail" || fail "an asynchronous runtime cannot be found in a program that has one"
  done
  [ $wrong = 0 ] || fail "a program of more than 19 MB, or a download of more than 9.5 MB"
}

if [ $# = 0 ]; then
  rm -rf "$out" "$work"
  set -- programs pages papers deb tarball image sources homebrew wheel npm sums
fi
mkdir -p "$out" "$work"
for step; do
  declare -F "$step" >/dev/null || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
  echo "== $step"
  "$step"
done
