# shellcheck shell=bash
# Shared by the tiers. Sourced, never run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What tiers share lies where an ordinary user can reach it: a clone and a home below /root are not.
CI_WORK=${CI_WORK:-/var/tmp/hookjail-ci}
CI_USER=hookjail-ci
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CI_WORK/target}
export TESTENV_CACHE=${TESTENV_CACHE:-$CI_WORK/testenv}
export CARGO_TERM_COLOR=never NO_COLOR=1 RUST_BACKTRACE=0
# Everything is compiled once, from nothing, and nobody looks into it with a debugger. A release is linked as a whole, which
# takes minutes and makes it faster, not different.
QUICK_BUILD=(CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
  CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16)
export "${QUICK_BUILD[@]}"

# Ends the tier as one that could not run, which is not the same as one that passed.
skip() { echo "SKIP: $*"; exit 77; }
# Says, for the last table too, that a part of a tier could not run here; the rest still must hold.
part_skipped() { echo "PART SKIPPED: $*"; }
fail() { echo "FAIL: $*" >&2; exit 1; }
need_root() { [ "$(id -u)" = 0 ] || skip "needs root"; }
have() { command -v "$1" >/dev/null; }

# Cargo keeps what it fetches where root and the ordinary user see it at one path: what root compiled of the dependencies is
# then good for the user too, and his build needs no network.
share_cargo_home() {
  local own=${CARGO_HOME:-$HOME/.cargo}
  export CARGO_HOME=$CI_WORK/user/.cargo
  [ ! -e "$CARGO_HOME/shared" ] || return 0
  mkdir -p "$CARGO_HOME"
  [ ! -e "$own/config.toml" ] || cp "$own/config.toml" "$CARGO_HOME/"
  [ ! -e "$own/registry" ] || cp -a "$own/registry" "$CARGO_HOME/"
  touch "$CARGO_HOME/shared"
}
if [ "$(id -u)" = 0 ]; then share_cargo_home; fi

# Runs a command as the ordinary user, who has nothing of ours in the environment.
AS_USER=(setpriv --reuid "$CI_USER" --regid "$CI_USER" --init-groups --no-new-privs
  env -i HOME="$CI_WORK/user" USER="$CI_USER" LANG=C.UTF-8 PATH="$CI_WORK/toolchain/bin:/usr/local/bin:/usr/bin:/bin"
    "${QUICK_BUILD[@]}" CARGO_NET_OFFLINE=true CARGO_TERM_COLOR=never NO_COLOR=1 RUST_BACKTRACE=0)
as_user() { "${AS_USER[@]}" "$@"; }

# Has the tests of a tier make their files in memory, where that can be mounted: they make and remove very many. Tier 30 makes
# its files on a disk.
files_in_memory() {
  local at=$CI_WORK/memory
  mkdir -p "$at"
  mountpoint -q "$at" || mount -t tmpfs -o mode=1777,size=2g hookjail-ci "$at" || { echo "files are made on the disk"; return 0; }
  trap 'umount -l "$CI_WORK/memory"' EXIT
  export TMPDIR=$at
  AS_USER+=("TMPDIR=$at")
}

# Makes the ordinary user, a toolchain and the dependencies he can read, and his fresh clone.
prepare_user() {
  need_root
  local user=$CI_WORK/user
  id "$CI_USER" >/dev/null 2>&1 || useradd --system --user-group --home-dir "$user" --shell /bin/sh "$CI_USER"
  install -d -m 755 "$CI_WORK"
  install -d -m 755 -o "$CI_USER" -g "$CI_USER" "$user"
  if [ ! -e "$CI_WORK/toolchain/ok" ]; then
    # Without rustup's proxies: they would look for a toolchain in the user's home.
    rm -rf "$CI_WORK/toolchain"; mkdir "$CI_WORK/toolchain"
    local sysroot; sysroot=$(rustc --print sysroot)
    cp -a "$sysroot/bin" "$sysroot/lib" "$CI_WORK/toolchain/"
    [ ! -d "$sysroot/libexec" ] || cp -a "$sysroot/libexec" "$CI_WORK/toolchain/"
    chmod -R go+rX "$CI_WORK/toolchain"; touch "$CI_WORK/toolchain/ok"
  fi
  if [ ! -e "$user/ready" ]; then
    fresh_clone "$user/clone"
    cargo fetch --quiet --locked
    touch "$user/ready"
  fi
  lend_dependencies
  chown -R "$CI_USER:$CI_USER" "$user"
}

# Copies what root compiled of the dependencies, once there is any, to the user's clone. Hookjail itself is another crate at
# another path, and is compiled there.
lend_dependencies() {
  local from=$CARGO_TARGET_DIR/debug to=$CI_WORK/user/clone/target/debug
  [ -d "$from/.fingerprint" ] && [ ! -e "$to" ] || return 0
  mkdir -p "$to"
  # Of what lies in deps, only libraries.
  tar -C "$from" --exclude='*hookjail*' --exclude='deps/[!l]*' -cf - .fingerprint build deps | tar -C "$to" -xpf -
}

# Builds the release once, in the ordinary user's clone, as he would; a copy that only root can write is $RELEASE.
RELEASE=$CI_WORK/hookjail
build_release() {
  prepare_user
  (cd "$CI_WORK/user/clone" && as_user cargo build --locked --release --bin hookjail)
  install -m 755 "$CI_WORK/user/clone/target/release/hookjail" "$RELEASE"
}

# Clones what is committed: a file that was forgotten is missing there.
fresh_clone() {
  rm -rf "$1"
  git -c safe.directory='*' clone --quiet --no-hardlinks "$PWD" "$1"
}
