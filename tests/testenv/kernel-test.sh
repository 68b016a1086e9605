#!/bin/sh
# In a guest, as root: what `strict` does with the Landlock ABI of this kernel, for root and for an ordinary user.
#   kernel-test.sh ABI            0: no Landlock
# What it needs is in the small tree of vm-prepare.sh; no jq, no python.
abi=$1
chmod 755 . hookjail events hooks hooks/*; chmod 644 events/*
mkdir -p /tmp/user && chown 1000:1000 /tmp/user
failed=0
wrong() { echo "  WRONG: $*"; failed=1; }

check() {
  who=$1; shift
  "$@" ./hookjail --json doctor --profile strict >doctor.out 2>doctor.err </dev/null
  "$@" ./hookjail --json run --contract reyn --mode shell_push --point turn_end --timeout 60s \
    --event events/turn_end.json -- hooks/decide-next.sh >run.out 2>run.err </dev/null
  code=$?
  if [ "$abi" = 0 ]; then
    grep -q '"confirmed":true' doctor.out && wrong "$who: doctor confirms"
    grep -q 'BACKEND_UNCONFIRMED' doctor.out || wrong "$who: doctor gives no reason"
    [ $code = 125 ] || wrong "$who: run ended with $code"
    cat run.out run.err | grep -q 'BACKEND_UNCONFIRMED' || wrong "$who: run was not refused as unconfirmed"
    grep -q OUTCOME_KIND run.out && wrong "$who: something ran"
  else
    grep -q "\"landlockAbi\":$abi[,}]" doctor.out || wrong "$who: doctor sees another ABI"
    grep -q '"confirmed":true' doctor.out || wrong "$who: doctor does not confirm"
    [ $code = 0 ] || wrong "$who: run ended with $code"
    grep -q '"wake":true' run.out || wrong "$who: no directive"
    grep -q "\"landlockAbi\":$abi[,}]" run.out || wrong "$who: run under another ABI"
  fi
  if [ $failed = 0 ]; then echo "  $who: as expected (exit code $code)"; else cat doctor.out doctor.err run.out run.err; fi
}

check root env HOME=/root
check user setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/tmp/user
exit $failed
