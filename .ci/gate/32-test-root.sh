#!/usr/bin/env bash
# The same tests as root, where hooks get a uid of their own, with those that only root can run and those in containers of crun.
. "$(dirname "$0")/../lib.sh"
need_root
build_tests
belongs_to root
files_in_memory
export HOOKJAIL_MAY_SKIP=$ROWS_NOT_HERE
for name in $(all_tests); do
  # Podman, runc and control groups: tiers 60 and 80. The policy taken apart: tiers 34 and 65.
  "$(tests_of "$name")" --include-ignored --skip mutation:: --skip an_element --skip with_cgroup::
done
