#!/usr/bin/env bash
# The program compiles for macOS and FreeBSD without a warning, and is linked for macOS on Apple silicon. Nothing runs.
. "$(dirname "$0")/../lib.sh"
belongs_to user

# Zig compiles the parts of TLS that are in C, and brings what describes macOS' libraries to a linker, which is all of macOS that linking
# takes. Both are fetched as they are named here or not at all; Debian's Python takes packages into an environment of their own alone.
ZIGLANG=0.15.1 CARGO_ZIGBUILD=0.24.0
zig=$CI_WORK/zig-$ZIGLANG-$CARGO_ZIGBUILD
get_zig() { # ENVIRONMENT
  [ ! -e "$1/ok" ] || return 0
  rm -rf "$1"
  python3 -m venv "$1" &&
    timeout 180 "$1/bin/pip" --quiet --disable-pip-version-check install --only-binary :all: \
      ziglang==$ZIGLANG cargo-zigbuild==$CARGO_ZIGBUILD && touch "$1/ok"
}
get_zig "$zig" || skip "zig $ZIGLANG and cargo-zigbuild $CARGO_ZIGBUILD cannot be had"

with_zig() { # WORDS OF CARGO-ZIGBUILD
  local cache=$CI_WORK/home/zig
  # By path: Python would be asked where it is, and the user may not be able to start root's.
  as_user env CARGO_ZIGBUILD_CACHE_DIR="$cache" ZIG_GLOBAL_CACHE_DIR="$cache" PATH="$zig/bin:$USER_PATH" \
    CARGO_ZIGBUILD_ZIG_PATH="$(echo "$zig"/lib/python3*/site-packages/ziglang/zig)" \
    cargo-zigbuild "$@"
}

checked=0
for target in aarch64-apple-darwin x86_64-apple-darwin x86_64-unknown-freebsd; do
  add_target $target || { part_skipped "$target: the compiler's library for it cannot be had"; continue; }
  with_zig clippy --locked --lib --bins --target $target -- -D warnings
  checked=1
done
[ $checked = 1 ] || skip "the compiler's library for none of the targets can be had"

link_for_macos() {
  local target=aarch64-apple-darwin program
  add_target $target || { part_skipped "NOTHING IS LINKED FOR MACOS: the compiler's library for $target cannot be had"; return; }
  program=$CARGO_TARGET_DIR/$target/debug/hookjail
  # A program of an earlier run must not pass for the result of this one.
  rm -f "$program"
  with_zig zigbuild --locked --bin hookjail --target $target
  # A Mach-O file of 64 bits (feedfacf) for arm64 (0100000c), and an executable (2).
  [ "$(od -An -v -tx4 --endian=little -j0 -N8 "$program" | tr -d ' ')" = feedfacf0100000c ] &&
    [ "$(od -An -v -tx4 --endian=little -j12 -N4 "$program" | tr -d ' ')" = 00000002 ] ||
    fail "what was linked for macOS is no program for Apple silicon"
  echo "linked for macOS, not run: $(stat -c %s "$program") bytes"
}
link_for_macos
