#!/usr/bin/env bash
# Real kernels, emulated: `strict` is confirmed and runs where Landlock is old (6.1: ABI 2) or newer (6.12: ABI 6), and is
# refused, with nothing run, where there is none (5.10).
. "$(dirname "$0")/lib.sh"
need_root
env=tests/testenv
timeout 120 $env/vm-prepare.sh deps || skip "packages for the emulator cannot be installed"
timeout 150 $env/vm-prepare.sh rootfs || skip "the guest's tree cannot be made"
for kernel in 6.1 6.12 5.10; do
  timeout 60 $env/vm-prepare.sh kernel $kernel || skip "kernel $kernel cannot be fetched"
done
# Optimised: under emulation a debug build spends minutes in the self-test.
cargo build --locked --release --bin hookjail
payload=$(mktemp -d); trap 'rm -rf "$payload"' EXIT; chmod 755 "$payload"
# Stripped: unpacking it in the guest is slow.
strip -o "$payload/hookjail" "$CARGO_TARGET_DIR/release/hookjail"
cp -r examples/events examples/hooks "$payload/"
install -m 755 $env/kernel-test.sh "$payload/"
for pair in 6.1:2 6.12:6 5.10:0; do
  echo "kernel ${pair%:*}, Landlock ABI ${pair#*:}"
  # Why not in parallel: two emulated machines on two cores take as long as one after the other.
  $env/vm-boot.sh -k "${pair%:*}" -t 150 -p "$payload" -- "sh ./kernel-test.sh ${pair#*:}" || fail "kernel ${pair%:*} (rc $?)"
done
