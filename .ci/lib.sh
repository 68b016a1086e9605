# shellcheck shell=bash
# Shared by the tiers. Sourced, never run.
#
# Everything is built once, by an ordinary user in a fresh clone. The programs then run as that user, as root, in containers and on
# other kernels. Where `.ci/run` is not root's, that user is the caller, and tiers that need root are skipped.
set -euo pipefail

# Where an ordinary user can reach it: a clone and a home below /root are not.
CI_WORK=${CI_WORK:-$([ "$(id -u)" = 0 ] && echo /var/tmp/hookjail-ci || echo "$HOME/.cache/hookjail-ci")}
CI_USER=hookjail-ci
CLONE=$CI_WORK/clone
export TESTENV_CACHE=${TESTENV_CACHE:-$CI_WORK/testenv}
# Everything is compiled once, from nothing, and never debugged.
export CARGO_TARGET_DIR=$CI_WORK/target CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
export CARGO_TERM_COLOR=never NO_COLOR=1 RUST_BACKTRACE=0
# Runs a command as the ordinary user, who has nothing of ours in the environment.
AS_USER=() USER_PATH=$PATH
if [ "$(id -u)" = 0 ]; then
  USER_PATH=$CI_WORK/toolchain/bin:/usr/local/bin:/usr/bin:/bin
  AS_USER=(setpriv --reuid "$CI_USER" --regid "$CI_USER" --init-groups --no-new-privs
    env -i HOME="$CI_WORK/home" USER="$CI_USER" LANG=C.UTF-8 PATH="$USER_PATH"
      CARGO_NET_OFFLINE=true RUST_BACKTRACE=0 CARGO_TARGET_DIR="$CARGO_TARGET_DIR" CARGO_INCREMENTAL=0
      CARGO_PROFILE_DEV_DEBUG=0 CARGO_TERM_COLOR=never NO_COLOR=1)
fi
as_user() { "${AS_USER[@]}" "$@"; }

# Ends the tier as one that could not run, which is not the same as one that passed.
skip() { echo "SKIP: $*"; exit 77; }
# Reports, for the last table too, that a part of a tier could not run here. The rest must still hold.
part_skipped() { echo "PART SKIPPED: $*"; }
fail() { echo "FAIL: $*" >&2; exit 1; }
need_root() { [ "$(id -u)" = 0 ] || skip "needs root"; }
have() { command -v "$1" >/dev/null; }
# Debian's lists of packages, by one tier at a time.
apt_lists() { flock "$CI_WORK/apt.lock" apt-get -qq update; }
# Debian packages, beside those that every tier needs.
packages() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install "$@" >/dev/null
}

# Whose the clone and what is built of it are. A daemon of root's takes nothing that another user could change.
belongs_to() { # root, or user
  [ "$(id -u)" = 0 ] || return 0
  local owner=root; [ "$1" = root ] || owner=$CI_USER
  chown -R "$owner:$owner" "$CLONE" "$CARGO_TARGET_DIR"
}

# Makes the ordinary user, a toolchain and dependencies that this user can read, and a fresh clone, which lacks uncommitted files.
prepare() { # REPOSITORY
  mkdir -p "$CI_WORK/home" "$CARGO_TARGET_DIR"
  rm -rf "$CLONE"
  git -c safe.directory='*' clone --quiet --no-hardlinks "$1" "$CLONE"
  local own=${CARGO_HOME:-$HOME/.cargo} manifest
  if [ "$(id -u)" = 0 ]; then
    # The dependencies that root has fetched already, and root's configuration of Cargo.
    local -x CARGO_HOME=$CI_WORK/home/.cargo
    mkdir -p "$CARGO_HOME"
    [ -e "$CARGO_HOME/config.toml" ] || [ ! -e "$own/config.toml" ] || cp "$own/config.toml" "$CARGO_HOME/"
    [ -e "$CARGO_HOME/registry" ] || [ ! -e "$own/registry" ] || cp -a "$own/registry" "$CARGO_HOME/"
  fi
  for manifest in Cargo.toml proto/codegen/Cargo.toml fuzz/Cargo.toml; do
    (cd "$CLONE" && cargo fetch --quiet --locked --manifest-path "$manifest")
  done
  [ "$(id -u)" = 0 ] || return 0
  id "$CI_USER" >/dev/null 2>&1 || useradd --system --user-group --home-dir "$CI_WORK/home" --shell /bin/sh "$CI_USER"
  chmod 755 "$CI_WORK" "$CI_WORK/home" "$CLONE"
  chown -R "$CI_USER:$CI_USER" "$CI_WORK/home"
  if [ ! -e "$CI_WORK/toolchain/ok" ]; then
    # Without rustup's proxies: they would look for a toolchain in the user's home.
    rm -rf "$CI_WORK/toolchain"; mkdir "$CI_WORK/toolchain"
    local sysroot part; sysroot=$(rustc --print sysroot)
    for part in bin lib libexec; do
      [ ! -d "$sysroot/$part" ] || cp -a "$sysroot/$part" "$CI_WORK/toolchain/"
    done
    chmod -R go+rX "$CI_WORK/toolchain"; touch "$CI_WORK/toolchain/ok"
  fi
}

# Has the compiler's library for another target, for the user too.
add_target() { # TARGET
  local library; library=$(rustc --print target-libdir --target "$1")
  [ -d "$library" ] || timeout 120 rustup target add "$1" || return 1
  [ "$(id -u)" != 0 ] || [ -d "$CI_WORK/toolchain/lib/rustlib/$1" ] || cp -a "${library%/lib}" "$CI_WORK/toolchain/lib/rustlib/"
}

# Builds all tests and the program that they test, which can have elements of its policy taken out. No second time: this is
# what the README's command for the tests builds. Another tier may have put another program in its place.
build_tests() {
  (
    flock 9
    built=$CLONE/.git/tests-built
    [ ! -e "$built" ] || [ "$(cat "$built")" != "$(stat -c '%i %Y' "$PROGRAM")" ] || exit 0
    belongs_to user
    (cd "$CLONE" && as_user cargo test --locked --no-run --message-format=json-render-diagnostics) |
      jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable != null)
        | (if .target.kind == ["lib"] and .target.name == "hookjail" then "lib" else .target.name end) + " " + .executable' >"$CI_WORK/tests"
    [ -s "$CI_WORK/tests" ] || fail "cargo names no tests"
    stat -c '%i %Y' "$PROGRAM" >"$built"
  ) 9>"$CI_WORK/build.lock"
}
# Where the tests of that name are: lib, spec, …; a crate's own are named as it is, hookjail_base.
tests_of() { awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }' "$CI_WORK/tests" || fail "no tests are named $1"; }
# Runs the unit tests of a crate in its directory, as cargo does: `unit_tests sandbox --include-ignored`.
unit_tests() { local crate=$1 tests; shift; tests=$(tests_of "hookjail_$crate"); (cd "$CLONE/crates/$crate" && "$tests" "$@"); }
all_tests() { cut -d ' ' -f 1 "$CI_WORK/tests"; }
# The program that these tests test.
PROGRAM=$CARGO_TARGET_DIR/debug/hookjail

# Chapters of the promises in which the uid of a hook has no part: input, answers, messages and records. They run as the ordinary
# user, and as root in the full run. Where root runs them, `install` and `learn` become an ordinary user themselves.
SAME_AS_ROOT=(adopt:: audit_read:: audit_trail:: bad_input:: command_line:: contracts:: dispatch:: http:: install:: interpret:: json:: learn::
  logs:: metrics:: network:: once:: output:: redaction:: schemas:: selection:: thin:: traces:: wire::)
# The same of the unit tests: models that are tried with very many values.
MODELS=(consent::pending:: hooks::valve:: redaction:: seatbelt:: seccomp::tests::)
# The crates in which a uid has a part; the others are pure.
OF_A_UID=(base daemon journal sandbox sys)

# Rows of the escape matrix that cannot be shown: not every kernel has x32, and unknown calls have no control. Actions for root alone
# have no control under another user.
ROWS_NOT_HERE="ESC-167 ESC-168"
ROWS_NOT_AS_USER="$ROWS_NOT_HERE ESC-010 ESC-068 ESC-069 ESC-101 ESC-153 ESC-154 ESC-161 ESC-164 ESC-171 ESC-172 ESC-173"

# Builds the release once, as an ordinary user would install it: $RELEASE, which only root can write. Linked statically, where the
# compiler's library for that can be had.
RELEASE=$CI_WORK/hookjail
build_release() {
  # The C code of TLS needs no C library, so the host's compiler builds it.
  local target=x86_64-unknown-linux-musl
  add_target $target || { part_skipped "a static release: the compiler's library for $target cannot be had"; target=$(rustc -vV | sed -n 's/^host: //p'); }
  belongs_to user
  (cd "$CLONE" && as_user env CC_x86_64_unknown_linux_musl=cc cargo install --quiet --locked --force --no-track --path . --target "$target" --root "$CI_WORK/home/installed")
  install -m 755 "$CI_WORK/home/installed/bin/hookjail" "$RELEASE"
  # Tests remove elements of the policy from a debug build.
  [ ! -e "$PROGRAM" ] || grep -aq HOOKJAIL_WEAKEN "$PROGRAM" || fail "a debug build does not read HOOKJAIL_WEAKEN"
  ! grep -aq HOOKJAIL_WEAKEN "$RELEASE" || fail "a release reads HOOKJAIL_WEAKEN"
  install -m 755 "$CI_WORK/home/installed/bin/hookjail-run" "$RELEASE-run"
}

# Makes a Python with the packages that a file lists, for the ordinary user too: $PYTHON. Not of a toolchain below /root. Tiers that run
# at the same time make it once.
python_with() { # REQUIREMENTS
  local name; name=$(sha256sum "$1" | cut -c 1-16)
  PYTHON=$CI_WORK/python-$name/bin/python
  local lock; exec {lock}>"$CI_WORK/python-$name.lock" && flock "$lock" || return
  make_python "$name" "$1"; local code=$?
  exec {lock}>&-
  return "$code"
}
make_python() { # NAME REQUIREMENTS
  local name=$1
  [ -e "$CI_WORK/python-$name/ok" ] && return
  /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || { apt-get -qq update && packages python3-venv; } || return
  rm -rf "$CI_WORK/python-$name"
  /usr/bin/python3 -m venv "$CI_WORK/python-$name" &&
    timeout 300 "$PYTHON" -m pip install --quiet --disable-pip-version-check --requirement "$2" && touch "$CI_WORK/python-$name/ok"
}

# Has twice as many tests run at a time as there are cores: most of them wait most of the time.
tests_at_once() {
  export RUST_TEST_THREADS=$((2 * $(nproc)))
  AS_USER+=("RUST_TEST_THREADS=$RUST_TEST_THREADS")
}

# Has the tests of a tier make their files in memory, where that can be mounted: they make and remove very many. Each tier has its own
# directory, since several run at a time.
files_in_memory() {
  local at; at=$(basename "$0"); at=$CI_WORK/m${at%%-*}
  mkdir -p "$at"
  mountpoint -q "$at" || mount -t tmpfs -o mode=1777,size=2g hookjail-ci "$at" || { echo "files are made on the disk"; return 0; }
  # shellcheck disable=SC2064
  trap "umount -l '$at'" EXIT
  export TMPDIR=$at
  AS_USER+=("TMPDIR=$at")
}

# Tiers run in the clone; only `.ci/run` itself does not.
[ "$(basename "$0")" = run ] || cd "$CLONE"
