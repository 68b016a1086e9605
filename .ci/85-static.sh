#!/usr/bin/env bash
# The program linked statically with musl. x86_64: it needs nothing around it, and runs hooks of busybox, of musl and of an old
# glibc. aarch64: every profile is confirmed and hooks run on a real kernel, emulated. Rows and unit tests of aarch64 are
# those of tier 80.
#   85-static.sh                both
#   85-static.sh x86_64         one of them, or aarch64
. "$(dirname "$0")/lib.sh"
need_root
env=tests/testenv
export DEBIAN_FRONTEND=noninteractive
[ $# -gt 0 ] || set -- x86_64 aarch64

# Why an architecture's part cannot be made. The tier is skipped where all of it cannot.
ran=0; why=
not_here() { part_skipped "$*"; why=$*; }

target() { # TARGET
  [ -d "$(rustc --print target-libdir --target "$1")" ] || timeout 120 rustup target add "$1"
}

x86_64() {
  local target=x86_64-unknown-linux-musl old
  target $target || { not_here "x86_64: the compiler's library for $target cannot be had"; return; }
  { apt-get -qq update && apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install \
    busybox-static musl-tools binutils >/dev/null; } || { not_here "x86_64: packages cannot be installed"; return; }
  # Not optimised: a release takes a quarter of an hour, most of all for what is optimised across crates. What is tested here
  # is what it is linked with.
  cargo build --locked --target $target --bin hookjail
  old=$TESTENV_CACHE/tree-bullseye.tar
  timeout 90 $env/vm-prepare.sh tree bullseye || { part_skipped "x86_64: no tree with an old glibc can be had"; old=; }
  $env/static-test.sh "$CARGO_TARGET_DIR/$target/debug/hookjail" ${old:+"$old"}
  # C libraries name a few values differently: every denied call, and the escape matrix, by the tests that tier 30 has built.
  HOOKJAIL_TEST_PROGRAM=$CARGO_TARGET_DIR/$target/debug/hookjail HOOKJAIL_MAY_SKIP="ESC-167 ESC-168" \
    cargo test --locked --test spec -- main_job doors matrix fail_closed::strict_and_pipeline_hold
  ran=1
}

aarch64() {
  local target=aarch64-unknown-linux-musl
  export TESTENV_ARCH=arm64
  target $target || { not_here "aarch64: the compiler's library for $target cannot be had"; return; }
  { timeout 120 $env/vm-prepare.sh deps && timeout 60 $env/vm-prepare.sh kernel 6.12 && timeout 60 $env/vm-prepare.sh tree; } ||
    { not_here "aarch64: the guest's packages, kernel or tree cannot be had"; return; }
  # The compiler's own linker: no other compiler is needed. Not optimised, as in tier 80.
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
    cargo build --locked --target $target --bin hookjail
  payload=$(mktemp -d); trap 'rm -rf "$payload"' EXIT; chmod 755 "$payload"
  cp "$CARGO_TARGET_DIR/$target/debug/hookjail" "$payload/"
  cp -r examples/events examples/hooks "$payload/"
  install -m 755 $env/kernel-test.sh "$payload/"
  cp "$TESTENV_CACHE/tree-arm64.tar" "$payload/tree.tar"
  # First where nothing else is: the guest's root holds a busybox, linked statically.
  $env/vm-boot.sh -k 6.12 -t 300 -p "$payload" -n -- "chmod 755 /; mkdir -p -m 755 /run /root /usr /lib; ifconfig lo up
    NO_COLOR=1 ./hookjail run --timeout 60s -- /bin/busybox echo 'ran beside a busybox alone' </dev/null || exit
    tar -C / -xf tree.tar; rm tree.tar; PATH=/usr/bin:/usr/sbin:/bin:/sbin exec /bin/dash ./kernel-test.sh 6" ||
    fail "aarch64 (rc $?)"
  ran=1
}

for part in "$@"; do
  case $part in x86_64|aarch64) "$part" ;; *) fail "$part? x86_64 aarch64" ;; esac
done
[ $ran = 1 ] || skip "$why"
