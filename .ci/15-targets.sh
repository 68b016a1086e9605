#!/usr/bin/env bash
# The library and the program compile for systems that are not here, and clippy has nothing to say. Nothing is linked and
# nothing runs: neither macOS nor FreeBSD is to be had.
. "$(dirname "$0")/lib.sh"
checked=0
for target in aarch64-apple-darwin x86_64-apple-darwin x86_64-unknown-freebsd; do
  [ -d "$(rustc --print target-libdir --target $target)" ] || timeout 60 rustup target add $target ||
    { part_skipped "$target: the compiler's library for it cannot be had"; continue; }
  cargo clippy --locked --lib --bins --target $target -- -D warnings
  checked=1
done
[ $checked = 1 ] || skip "the compiler's library for none of the targets can be had"
