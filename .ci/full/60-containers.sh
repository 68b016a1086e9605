#!/usr/bin/env bash
# The common promises of all backends, in containers: as root on crun, as an ordinary user on runc; and the escape matrix there.
. "$(dirname "$0")/../lib.sh"
need_root
packages crun runc
for runtime in crun runc; do have "$runtime" || fail "$runtime is not installed"; done
build_tests
spec=$(tests_of spec)
files_in_memory
# The other chapters expect Landlock's messages, which differ from a container's.
chapters=(main_job:: output:: deadline:: matrix::nothing matrix::parts matrix::processes read_only::what)
runc=$(realpath "$(command -v runc)")
belongs_to root
# Tests of containers alone. Tier 32 runs them on crun.
"$spec" --ignored with_runc::
HOOKJAIL_TEST_RUNTIME=/usr/bin/crun tests/testenv/hybrid-free.sh "$spec" "${chapters[@]}"
# The skipped tests have no meaning in a container: its scratch directory is its own, no thread waits for its processes, and no file
# lasts in it.
HOOKJAIL_TEST_RUNTIME=/usr/bin/crun tests/testenv/hybrid-free.sh "$spec" --include-ignored run_as:: \
  --skip a_callers_other_processes_reach_no_running_hooks_directory --skip a_caller_that_stops_its_own_hooks_before_their_exec \
  --skip files_last_for_each_caller_where_hooks_run_as_it
belongs_to user
tests/testenv/hybrid-free.sh "${AS_USER[@]}" env HOOKJAIL_TEST_RUNTIME="$runc" "$spec" --include-ignored "${chapters[@]}" with_crun:: with_runc::
echo "Axes by backend, as each claims them; a unit test compares this table with the code:"
sed -n '/<!-- axes: begin -->/,/<!-- axes: end -->/{/<!--/d;p}' docs/backends.md
