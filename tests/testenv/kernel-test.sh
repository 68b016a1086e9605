#!/bin/sh
# In a guest, as root: results of `strict` and `pipeline` with the Landlock ABI of this kernel, for root and for an ordinary
# user. Then, where ./spec and ./attempt exist, rows of the escape matrix, each with its positive control.
#   kernel-test.sh none           the kernel has no Landlock
#   kernel-test.sh off            Landlock is disabled
#   kernel-test.sh ABI [ROW...]   hookjail confines with this ABI, and holds in these rows
#
# Requirements are in the small trees of vm-prepare.sh; no jq, no python.
abi=$1; shift
chmod 755 . hookjail events hooks hooks/*; chmod 644 events/*
mkdir -p /tmp/user && chown 1000:1000 /tmp/user
# The kernel shall look for no module: there are none, and each time costs a second here.
[ ! -e /proc/sys/kernel/modprobe ] || echo >/proc/sys/kernel/modprobe
failed=0
wrong() { echo "  WRONG: $*"; failed=1; }

# One hook that answers, and one that needs what the profile has more than `strict`.
run_strict() {
  "$@" ./hookjail --json run --contract reyn --mode shell_push --point turn_end --timeout 60s \
    --event events/turn_end.json -- hooks/decide-next.sh
}
# shellcheck disable=SC2016
run_pipeline() { "$@" ./hookjail --json run --profile pipeline --timeout 60s -- /bin/sh -c 'echo "$((6 * 7))" | cat'; }

check() {
  who=$1; profile=$2; shown=$3; shift 3
  "$@" ./hookjail --json doctor --profile "$profile" >doctor.out 2>doctor.err </dev/null
  "run_$profile" "$@" >run.out 2>run.err </dev/null
  code=$?
  case $abi in
    none|off)
      grep -q '"confirmed":true' doctor.out && wrong "$who, $profile: doctor confirms"
      grep -q 'BACKEND_UNCONFIRMED' doctor.out || wrong "$who, $profile: doctor gives no reason"
      why='this kernel has no Landlock'; [ "$abi" = none ] || why='built into this kernel but not enabled'
      grep -q "$why" doctor.out doctor.err || wrong "$who, $profile: doctor does not say: $why"
      [ $code = 125 ] || wrong "$who, $profile: run ended with $code"
      cat run.out run.err | grep -q 'BACKEND_UNCONFIRMED' || wrong "$who, $profile: run was not refused as unconfirmed"
      grep -q OUTCOME_KIND run.out && wrong "$who, $profile: something ran" ;;
    *)
      grep -q "\"landlockAbi\":$abi[,}]" doctor.out || wrong "$who, $profile: doctor sees another ABI"
      grep -q '"confirmed":true' doctor.out || wrong "$who, $profile: doctor does not confirm"
      [ $code = 0 ] || wrong "$who, $profile: run ended with $code"
      grep -q "$shown" run.out || wrong "$who, $profile: the hook did not do its work"
      grep -q "\"landlockAbi\":$abi[,}]" run.out || wrong "$who, $profile: run under another ABI" ;;
  esac
  if [ $failed = 0 ]; then echo "  $who, $profile: as expected (exit code $code)"; else cat doctor.out doctor.err run.out run.err; fi
}

for profile in strict pipeline; do
  # Evidence of the hook's work in the reply: a directive; its output, 42, as JSON has bytes.
  shown='"wake":true'; [ $profile = strict ] || shown='"stdout":"NDIK"'
  check root $profile "$shown" env HOME=/root
  check user $profile "$shown" setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/tmp/user
done

# Every shipped profile, not only those that were run.
case $abi in none|off) ;; *)
  HOME=/root ./hookjail --json doctor >doctor.out 2>doctor.err </dev/null || wrong "doctor: not every profile is confirmed"
  profiles=$(grep -o '"confirmed":true' doctor.out | wc -l)
  [ "$profiles" = "$(HOME=/root ./hookjail profile list | wc -l)" ] || wrong "doctor: $profiles profiles confirmed"
  if [ $failed = 0 ]; then echo "  doctor: every profile confirmed"; else cat doctor.out doctor.err; fi ;;
esac

# A program of the 32-bit architecture that this processor runs as well: its numbers mean other calls.
if [ -e foreign ]; then
  chmod 755 foreign
  ./foreign; code=$?
  [ $code = 42 ] || wrong "the 32-bit program without hookjail: $code"
  HOME=/root ./hookjail --json run --timeout 60s -- ./foreign >run.out 2>run.err </dev/null; code=$?
  if [ $code = 159 ] && grep -q OUTCOME_KIND_ESCAPE_ATTEMPT run.out; then echo "  a 32-bit program: killed"
  else wrong "the 32-bit program as a hook: $code"; cat run.out run.err; fi
fi

# The table of this architecture's calls, against its C library's numbers, and the rules.
if [ -e unit ]; then
  chmod 755 unit
  ./unit sandbox::seccomp::syscalls sandbox::seccomp::rules >unit.out 2>&1 && grep -q ' passed; 0 failed' unit.out || wrong "the unit tests"
  if [ $failed = 0 ]; then echo "  $(grep '^test result' unit.out)"; else cat unit.out; fi
fi

# Cgroups of runs: as root, and as a user to whom one is delegated.
if [ -e runtimes ]; then
  chmod 755 spec weak runtimes/crun runtimes/runc
  cp runtimes/crun runtimes/runc /usr/bin/; cp -n runtimes/lib/* /usr/lib/x86_64-linux-gnu/
  groups=/sys/fs/cgroup
  all='+memory +pids +cpu'
  echo "$all" >$groups/cgroup.subtree_control
  mkdir $groups/hooks $groups/of-user
  echo "$all" >$groups/of-user/cgroup.subtree_control
  mkdir $groups/of-user/hooks $groups/of-user/daemon
  for group in of-user of-user/hooks of-user/daemon; do
    chown 1000:1000 $groups/$group $groups/$group/cgroup.procs $groups/$group/cgroup.subtree_control
  done
  in_groups() {
    who=$1; group=$2; tests=$3; shift 3
    # shellcheck disable=SC2086
    HOOKJAIL_TEST_PROGRAM="$PWD/hookjail" HOOKJAIL_CGROUP=$group "$@" ./spec --include-ignored --test-threads 1 --nocapture $tests >groups.out 2>&1
    code=$?
    { [ $code = 0 ] && ! grep -q ' 0 passed' groups.out; } || wrong "cgroups, $who: $code"
    if [ $failed = 0 ]; then echo "  cgroups, $who: $(grep '^test result' groups.out)"; else cat groups.out; fi
  }
  in_groups root $groups/hooks cgroups::with_cgroup:: env HOME=/root
  in_groups 'root, weakened' $groups/hooks cgroups::with_cgroup_and_weakened:: env HOME=/root HOOKJAIL_TEST_PROGRAM="$PWD/weak"
  # Unlike crun, it makes a cgroup of its own, which a daemon that is killed leaves as well.
  in_groups 'root on runc' $groups/hooks cgroups::with_cgroup::cgroups_of_containers env HOME=/root HOOKJAIL_TEST_RUNTIME=/usr/bin/runc
  # Between cgroups of the user's own: an ordinary user may not move a process in from outside.
  (echo 0 >$groups/of-user/daemon/cgroup.procs
    in_groups user $groups/of-user/hooks 'cgroups::with_cgroup::a_' setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/tmp/user TMPDIR=/tmp/user
    exit $failed) || failed=1
fi

# The units: systemd delegates a cgroup to the daemon, which limits runs in it, also after it was killed.
if [ -e systemd ] && [ -d /run/systemd/system ]; then
  install -m 755 hookjail /usr/bin/hookjail
  install -m 644 systemd/hookjail.service systemd/hookjail.socket /etc/systemd/system/
  systemd-sysusers "$PWD/systemd/hookjail.sysusers"; systemd-tmpfiles --create "$PWD/systemd/hookjail.tmpfiles"
  systemctl daemon-reload
  systemctl start hookjail.socket
  HOME=/root hookjail allow -- /bin/true >/dev/null 2>&1
  delegated=/sys/fs/cgroup/system.slice/hookjail.service
  limited() {
    HOME=/root hookjail run --connect /run/hookjail/hookjail.sock --json --timeout 60s -- /bin/true </dev/null >unit.out 2>&1
    grep -q '"check":"memory_max","observed":"1073741824"' unit.out || wrong "unit, $1: the run is not limited"
    [ -d $delegated/daemon ] && [ -z "$(cat $delegated/cgroup.procs)" ] || wrong "unit, $1: the daemon is not out of the way"
    [ "$(ls -d $delegated/hookjail-* | wc -l)" = 1 ] || wrong "unit, $1: there is not one cgroup of runs"
  }
  limited started
  systemctl reload hookjail.service || wrong "unit: no reload"
  pid=$(systemctl show -P MainPID hookjail.service)
  systemctl kill --signal=KILL --kill-who=main hookjail.service
  until new=$(systemctl show -P MainPID hookjail.service) && [ "$new" != "$pid" ] && [ "$new" != 0 ]; do sleep 0.5; done
  limited 'killed and started again'
  systemctl restart hookjail.service || wrong "unit: no restart"
  limited restarted
  # Under its AppArmor profile, which keeps from it what the same command does without.
  if [ -e apparmor ]; then
    cp -r apparmor/etc/. /etc/
    apparmor/apparmor_parser -r -T /etc/apparmor.d/hookjail-daemon || wrong "apparmor: the profile is not loaded"
    mkdir -p /etc/systemd/system/hookjail.service.d
    cp systemd/hookjail.service.d/apparmor.conf.example /etc/systemd/system/hookjail.service.d/apparmor.conf
    systemctl daemon-reload
    systemctl restart hookjail.service || wrong "apparmor: no restart"
    limited 'confined by AppArmor'
    confined=$(cat "/proc/$(systemctl show -P MainPID hookjail.service)/attr/current")
    [ "$confined" = 'hookjail-daemon (enforce)' ] || wrong "apparmor: the daemon is '$confined'"
    HOME=/root hookjail status >unit.out 2>&1 || wrong "apparmor: no status"
    sleep 600 & other=$!
    for act in 'echo >/etc/of-hookjail' "kill -0 $other" "cat /proc/$other/root/etc/hostname" 'mount -t tmpfs t /mnt' 'echo 0 >/proc/sys/kernel/printk'; do
      systemd-run --quiet --wait --pipe -- sh -c "$act" >act.out 2>&1 || wrong "apparmor, the control: $act"
      systemd-run --quiet --wait --pipe -p AppArmorProfile=hookjail-daemon -- sh -c "$act" >act.out 2>&1 && wrong "apparmor: $act"
      grep -Eqi 'permission denied|not permitted|cannot (create|mount)' act.out || wrong "apparmor: $act: $(cat act.out)"
    done
    kill $other
    if [ $failed = 0 ]; then echo "  apparmor: the daemon serves, and five acts are refused to it"; fi
  fi
  systemctl stop hookjail.service hookjail.socket
  [ ! -d $delegated ] || wrong "unit: its cgroup is left"
  if [ $failed = 0 ]; then echo "  cgroups, the unit: as expected"; else cat unit.out; journalctl --no-pager -u hookjail.service; fi
fi

if [ -e spec ] && [ $# -gt 0 ]; then
  chmod 755 spec attempt
  # Each row with a positive control; numbers that mean nothing have none.
  HOOKJAIL_TEST_PROGRAM=$PWD/hookjail HOOKJAIL_TEST_PROBE=$PWD/attempt HOOKJAIL_ONLY_ROWS=$* HOOKJAIL_MAY_SKIP=ESC-168 \
    ./spec --test-threads 1 --nocapture --exact matrix::nothing_outside_the_grants_can_be_had_under_strict \
    matrix::processes_of_a_hook_have_no_more_rights_and_cannot_leave_its_group >matrix.out 2>&1
  code=$?
  for profile in strict pipeline; do
    grep -q "^$profile: .* 0 failed" matrix.out || wrong "the matrix did not hold under $profile"
  done
  [ $code = 0 ] || wrong "the matrix ended with $code"
  if [ $failed = 0 ]; then grep ' rows with ' matrix.out | sed 's/^/  /'; else cat matrix.out; fi
fi
exit $failed
