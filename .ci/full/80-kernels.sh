#!/usr/bin/env bash
# The other kernels, emulated: 6.12 and the newest of Debian and aarch64 confine and hold, 5.10 refuses, and on 6.1 cgroups limit and AppArmor confines the daemon.
. "$(dirname "$0")/../lib.sh"
. .ci/kernels.sh
need_root
build_tests
build_release
native "$RELEASE" groups 6.12 new none
arm64
