#!/usr/bin/env bash
# Installs binary and units under a real systemd, calls the daemon over its socket, stops and restarts it.
#   systemd-test.sh BINARY        on the host: boots the container (needs `vm-prepare.sh rootfs`)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Each record names the next number and the hash of the one before. (The hashes themselves are checked by the daemon's tests.)
audit_is_one_chain() {
  sed -E 's/^\{"sequence":([0-9]+),.*"previous":"([0-9a-f]{64})".*"hash":"([0-9a-f]{64})".*$/\1 \2 \3/' /var/lib/hookjail/audit/journal.jsonl |
    awk '$1 != NR || (NR > 1 && $2 != hash) { print "broken at line " NR; exit 1 } { hash = $3 }'
}

# In the container, as root.
inside() {
  set -x
  install -m 755 hookjail /usr/bin/hookjail
  install -m 644 systemd/hookjail.service systemd/hookjail.socket /etc/systemd/system/
  install -m 644 systemd/user/* /etc/systemd/user/
  systemd-sysusers "$PWD/systemd/hookjail.sysusers"
  systemd-tmpfiles --create "$PWD/systemd/hookjail.tmpfiles"
  systemd-analyze verify /etc/systemd/system/hookjail.service /etc/systemd/system/hookjail.socket
  XDG_RUNTIME_DIR=/run HOME=/root systemd-analyze verify --user /etc/systemd/user/hookjail.service /etc/systemd/user/hookjail.socket
  systemctl daemon-reload

  # The first call starts the daemon; nobody else did.
  systemctl start hookjail.socket
  [ "$(stat -c '%a %U %G' /run/hookjail/hookjail.sock)" = '660 root hookjail' ]
  [ "$(stat -c %a /run/hookjail)" = 711 ]
  [ "$(systemctl is-active hookjail.service || true)" = inactive ]
  hookjail consent allow -- /bin/true
  call() { hookjail run --connect /run/hookjail/hookjail.sock --json -- /bin/true </dev/null; }
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]
  [ "$(systemctl show -P ActiveState hookjail.service)" = active ]
  [ "$(systemctl show -P Type hookjail.service)" = notify ]
  journalctl --no-pager -u hookjail.service | grep 'serving on the socket that was passed'
  # A command that nobody allowed is refused.
  if hookjail run --connect /run/hookjail/hookjail.sock -- /bin/false </dev/null; then exit 1; fi

  # What changed is taken over without a restart; what is broken is not, and changes nothing.
  pid=$(systemctl show -P MainPID hookjail.service)
  [ "$(stat -c '%a %U' /run/hookjail/hookjail-admin.sock)" = '600 root' ]
  install -d -m 755 /etc/hookjail
  printf '[hooks]\ndisabled = true\n' >/etc/hookjail/hookjail.toml
  systemctl reload hookjail.service
  journalctl --no-pager -u hookjail.service | grep ' reloaded hooks=0'
  echo nonsense >/etc/hookjail/hookjail.toml
  if systemctl reload hookjail.service; then exit 1; fi
  rm /etc/hookjail/hookjail.toml
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]
  [ "$(systemctl show -P MainPID hookjail.service)" = "$pid" ]

  # The audit chain goes on where the daemon that was stopped left it.
  records() { wc -l </var/lib/hookjail/audit/journal.jsonl; }
  before=$(records)
  systemctl restart hookjail.service
  [ "$(stat -c %a /run/hookjail)" = 711 ]
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]
  [ "$(records)" -gt "$before" ]
  audit_is_one_chain

  # A guard that runs while the unit is restarted or stopped is a no.
  install -d -m 755 /srv/hooks
  printf '#!/bin/bash\nexec /bin/sleep 60\n' >/srv/hooks/guard.sh
  chmod 755 /srv/hooks/guard.sh
  hookjail consent allow --profile strict -- /srv/hooks/guard.sh
  guarded() {
    local records code=0
    records=$(records)
    echo '{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}' |
      hookjail run --as claude-code --connect /run/hookjail/hookjail.sock --profile strict -- /srv/hooks/guard.sh 2>/tmp/told &
    for _ in $(seq 100); do [ "$(records)" -gt "$records" ] && break; sleep 0.1; done
    [ "$(records)" -gt "$records" ]
    "$@"
    wait $! || code=$?
    [ "$code" = 2 ]
    grep 'hookjail: ' /tmp/told
  }
  printf '[server]\ndrain = "1s"\n' >/etc/hookjail/hookjail.toml
  systemctl restart hookjail.service
  guarded systemctl restart hookjail.service
  guarded systemctl stop hookjail.service
  rm /etc/hookjail/hookjail.toml
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]

  # A daemon that hangs is replaced.
  install -d -m 755 /etc/systemd/system/hookjail.service.d
  printf '[Service]\nWatchdogSec=2\n' >/etc/systemd/system/hookjail.service.d/watchdog.conf
  systemctl daemon-reload
  systemctl restart hookjail.service
  pid=$(systemctl show -P MainPID hookjail.service)
  sleep 4
  [ "$(systemctl show -P MainPID hookjail.service)" = "$pid" ]
  kill -STOP "$pid"
  for _ in $(seq 300); do
    case $(systemctl show -P MainPID hookjail.service) in 0 | "$pid") sleep 0.1 ;; *) break ;; esac
  done
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]
  [ "$(systemctl show -P MainPID hookjail.service)" != "$pid" ]
  rm -r /etc/systemd/system/hookjail.service.d
  systemctl daemon-reload
  systemctl restart hookjail.service

  systemctl stop hookjail.service hookjail.socket
  [ "$(systemctl show -P ActiveState hookjail.service)" = inactive ]
  [ "$(systemctl show -P ExecMainStatus hookjail.service)" = 0 ]
  [ "$(systemctl show -P Result hookjail.service)" = success ]
  [ ! -e /run/hookjail/hookjail.sock ]
  # Nothing of a run or an instance stays.
  [ -z "$(find /run/hookjail -mindepth 1 -name 'instance-*')" ]
  set +x
  echo 'systemd test: all held'
}

if [ "${1:-}" = --inside ]; then inside; exit; fi
binary=${1:?the hookjail binary}
payload=$(mktemp -d); trap 'rm -rf "$payload"' EXIT
install -m 755 "$binary" "$payload/hookjail"
strip "$payload/hookjail"
cp -r "$here/../../systemd" "$payload/"
install -m 755 "$0" "$payload/systemd-test.sh"
"$here/nspawn-run.sh" -t 120 -p "$payload" -- bash ./systemd-test.sh --inside

# nspawn's own list of calls refuses Landlock's: nothing runs, for that reason.
refused=$("$here/nspawn-run.sh" -f -t 60 -p "$payload" -- './hookjail --json run -- /bin/true </dev/null' || true)
[[ $refused == *BACKEND_UNCONFIRMED* && $refused == *"Landlock's system calls are refused here"* ]] ||
  { echo "under nspawn's own list of calls: $refused" >&2; exit 1; }
echo "systemd test: under nspawn's own list of calls it refuses, and says why"
