#!/usr/bin/env bash
# The static program: small, and in roots with nothing, with busybox and musl, with an old glibc, against the escape matrix; and on emulated aarch64.
. "$(dirname "$0")/../lib.sh"
need_root
env=tests/testenv

x86_64() {
  local old size
  { apt-get -qq update && packages busybox-static musl-tools binutils; } || skip "packages cannot be installed"
  add_target x86_64-unknown-linux-musl || skip "the compiler's library for musl cannot be had"
  build_release
  size=$(stat -c %s "$RELEASE")
  echo "installed: $size bytes"
  # Not optimised across crates: packaging/build.sh holds what packages have, which is, to 19 MB.
  [ "$size" -le $((43 << 19)) ] || fail "the installed program takes more than 21.5 MiB"
  size=$(stat -c %s "$RELEASE-run")
  echo "installed, for settings: $size bytes"
  [ "$size" -le $((7 << 19)) ] || fail "the program that stands in for hooks takes more than 3.5 MiB"
  # Of one call, in the daemon; a tenth more than was measured (1,520,000).
  as_user cargo build --quiet --locked --bench instructions
  timeout 400 "$(find "$CARGO_TARGET_DIR/debug/deps" -name 'instructions-*' -executable -newer Cargo.toml | head -n 1)" --program "$RELEASE" --calls 3 --most 1670000 ||
    fail "a call takes too many instructions, or they cannot be counted"
  old=$TESTENV_CACHE/tree-bullseye.tar
  timeout 90 $env/vm-prepare.sh tree bullseye || { part_skipped "x86_64: no tree with an old glibc can be had"; old=; }
  $env/static-test.sh "$RELEASE" ${old:+"$old"}
  # C libraries name a few values differently: every denied call, and the escape matrix. Not optimised across crates, a static
  # program has more of a library than is called: packaging/build.sh looks into what packages have.
  build_tests
  belongs_to root
  HOOKJAIL_TEST_PROGRAM=$RELEASE HOOKJAIL_MAY_SKIP=$ROWS_NOT_HERE \
    "$(tests_of spec)" --include-ignored --skip it_holds_no_asynchronous_runtime main_job doors matrix egress thin:: strict_and_pipeline_hold
}

aarch64() {
  local target=aarch64-unknown-linux-musl
  export TESTENV_ARCH=arm64
  add_target $target || { part_skipped "aarch64: the compiler's library for $target cannot be had"; return; }
  { packages clang && timeout 120 $env/vm-prepare.sh deps && timeout 60 $env/vm-prepare.sh kernel 6.12 && timeout 60 $env/vm-prepare.sh tree; } ||
    { part_skipped "aarch64: the guest's packages, kernel or tree cannot be had"; return; }
  belongs_to user
  # The compiler's own linker, and clang for what of TLS is in C, which needs no header of the target. Not optimised, as in tier 80.
  as_user env CC_aarch64_unknown_linux_musl=clang CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
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
}

x86_64
aarch64
