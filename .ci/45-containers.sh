#!/usr/bin/env bash
# What every backend does alike, in containers: as root on crun and podman, as an ordinary user on runc; and the escape matrix
# there. What is left out says in Landlock's words what a container says in others.
. "$(dirname "$0")/lib.sh"
prepare_user
files_in_memory
for runtime in crun podman runc; do have "$runtime" || fail "$runtime is not installed"; done
chapters=(main_job:: output:: deadline:: matrix::nothing matrix::processes)
runc=$(realpath "$(command -v runc)")
# What is true of containers alone was shown in tier 30, as root.
HOOKJAIL_TEST_RUNTIME=/usr/bin/crun tests/testenv/hybrid-free.sh \
  cargo test --locked --test spec -- "${chapters[@]}"
HOOKJAIL_TEST_RUNTIME=/usr/bin/podman tests/testenv/hybrid-free.sh \
  cargo test --locked --test spec -- "${chapters[@]}"
cd "$CI_WORK/user/clone"
tests/testenv/hybrid-free.sh "${AS_USER[@]}" env HOOKJAIL_MUST_HAVE="crun runc" HOOKJAIL_TEST_RUNTIME="$runc" \
  cargo test --locked --test spec -- "${chapters[@]}" containers::
echo "Axes by backend, as each claims them; a unit test compares this table with the code:"
sed -n '/<!-- axes: begin -->/,/<!-- axes: end -->/{/<!--/d;p}' docs/backends.md
