#!/usr/bin/env bash
# The units under a real systemd: started by the socket, called, stopped, restarted.
. "$(dirname "$0")/../lib.sh"
need_root
timeout 300 tests/testenv/vm-prepare.sh deps || skip "packages for the container cannot be installed"
timeout 200 tests/testenv/vm-prepare.sh rootfs || skip "the container's tree cannot be made"
build_release
tests/testenv/systemd-test.sh "$RELEASE"
