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
  # With what has been sent to journald until now.
  journal() { journalctl --sync && journalctl --no-pager -q -u hookjail.service "$@"; }
  install -m 755 hookjail /usr/bin/hookjail
  install -m 644 systemd/hookjail.service systemd/hookjail.socket /etc/systemd/system/
  install -m 644 systemd/user/* /etc/systemd/user/
  systemd-sysusers "$PWD/systemd/hookjail.sysusers"
  systemd-tmpfiles --create "$PWD/systemd/hookjail.tmpfiles"
  systemd-analyze verify /etc/systemd/system/hookjail.service /etc/systemd/system/hookjail.socket
  XDG_RUNTIME_DIR=/run HOME=/root systemd-analyze verify --user /etc/systemd/user/hookjail.service /etc/systemd/user/hookjail.socket
  systemctl daemon-reload

  # The unit leaves open only rights that hooks need: docs/operations.md has the reason of each.
  ./exposure.sh systemd

  # The first call starts the daemon; before it no daemon runs.
  systemctl start hookjail.socket
  [ "$(stat -c '%a %U %G' /run/hookjail/hookjail.sock)" = '660 root hookjail' ]
  [ "$(stat -c %a /run/hookjail)" = 711 ]
  [ "$(systemctl is-active hookjail.service || true)" = inactive ]
  # A query of the status starts none.
  code=0; hookjail status || code=$?
  [ "$code" = 125 ]
  [ "$(systemctl is-active hookjail.service || true)" = inactive ]
  hookjail allow -- /bin/true
  call() { hookjail run --connect /run/hookjail/hookjail.sock --json -- /bin/true </dev/null; }
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]
  [ "$(systemctl show -P ActiveState hookjail.service)" = active ]
  [ "$(systemctl show -P Type hookjail.service)" = notify ]
  hookjail status --json | grep '"serving":true' | grep '"socket":"/run/hookjail/hookjail.sock"'
  journal | grep 'serving on the socket that was passed'
  # Of what the unit takes from the daemon, no profile needs anything that keeps or hides nothing in a workspace; the others are refused
  # with the drop-in's name.
  for profile in strict pipeline workspace-ro; do
    hookjail doctor --connect /run/hookjail/hookjail.sock --profile "$profile"
  done
  for profile in workspace-rw network; do
    if hookjail doctor --connect /run/hookjail/hookjail.sock --profile "$profile" --verbose >/tmp/told; then exit 1; fi
    grep 'mount namespace' /tmp/told
    grep workspaces.conf /tmp/told
  done
  # A notifier without a workspace has nothing hidden, and runs.
  hookjail allow --profile network -- /bin/true
  hookjail run --connect /run/hookjail/hookjail.sock --profile network -- /bin/true </dev/null
  # A command without a consent is refused.
  if hookjail run --connect /run/hookjail/hookjail.sock --profile strict -- /bin/false </dev/null; then exit 1; fi
  # The journal has the refusal as a warning, with fields to find it by. Other messages are no warnings.
  journal -p warning -o json HOOKJAIL_REASON=CONSENT_REQUIRED HOOKJAIL_UID=0 HOOKJAIL_PROFILE=strict >/tmp/refused
  [ "$(wc -l </tmp/refused)" = 1 ]
  grep '"PRIORITY":"4"' /tmp/refused | grep '"SYSLOG_IDENTIFIER":"hookjail"' | grep '"HOOKJAIL_RUN":"'
  grep '"_TRANSPORT":"journal"' /tmp/refused | grep '"MESSAGE":"refused reason='
  journal -o json | grep 'serving on the socket that was passed' | grep '"PRIORITY":"6"'
  if journal -p warning | grep 'serving on the socket that was passed'; then exit 1; fi

  # A changed configuration is applied without a restart; a broken one changes nothing.
  pid=$(systemctl show -P MainPID hookjail.service)
  [ "$(stat -c '%a %U' /run/hookjail/hookjail-admin.sock)" = '600 root' ]
  install -d -m 755 /etc/hookjail
  printf '[hooks]\ndisabled = true\n' >/etc/hookjail/hookjail.toml
  systemctl reload hookjail.service
  journal | grep ' reloaded hooks=0'
  echo nonsense >/etc/hookjail/hookjail.toml
  if systemctl reload hookjail.service; then exit 1; fi
  # A failure of a command of the unit is logged as an error, and so is a failure of the daemon.
  journal -p err | grep 'hookjail: RELOAD_REFUSED: .*cannot load the configuration'
  kill -HUP "$pid"
  for _ in $(seq 100); do journal -p err | grep 'reload refused' && break; sleep 0.1; done
  journal -p err | grep 'reload refused'
  rm /etc/hookjail/hookjail.toml
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]
  [ "$(systemctl show -P MainPID hookjail.service)" = "$pid" ]

  # More often than an operator does it, and systemd allows.
  restart() { systemctl reset-failed hookjail.service; systemctl restart hookjail.service; }

  # The audit chain goes on where the daemon that was stopped left it.
  records() { wc -l </var/lib/hookjail/audit/journal.jsonl; }
  before=$(records)
  restart
  [ "$(stat -c %a /run/hookjail)" = 711 ]
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]
  [ "$(records)" -gt "$before" ]
  audit_is_one_chain

  # A guard that runs while the unit is restarted or stopped is a no.
  install -d -m 755 /srv/hooks
  printf '#!/bin/bash\nexec /bin/sleep 60\n' >/srv/hooks/guard.sh
  chmod 755 /srv/hooks/guard.sh
  hookjail allow --profile strict -- /srv/hooks/guard.sh
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
  restart
  guarded restart
  guarded systemctl stop hookjail.service
  rm /etc/hookjail/hookjail.toml
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]

  # With the drop-in for workspaces every profile is confirmed.
  install -D -m 644 systemd/hookjail.service.d/workspaces.conf.example /etc/systemd/system/hookjail.service.d/workspaces.conf
  systemctl daemon-reload
  restart
  hookjail doctor --connect /run/hookjail/hookjail.sock

  # Hooks that run as their callers write in projects in closed homes, each user in his own.
  hook() { # NAME, and its lines
    printf '#!/bin/bash\n%s\n' "$2" >"/srv/hooks/$1"
    chmod 755 "/srv/hooks/$1"
  }
  for user in alice bob; do
    useradd --create-home --key HOME_MODE=0700 --groups hookjail "$user"
    install -d -m 700 -o "$user" -g "$user" "/home/$user/project" "/home/$user/project/.git"
    echo "of $user" >"/home/$user/project/note"
    echo "of $user" >"/home/$user/project/.git/config"
    chown "$user:" "/home/$user/project/note" "/home/$user/project/.git/config"
  done
  hook write.sh 'cat note && echo new >>note && ! echo new >>.git/config'
  hook leave.sh 'mkdir "$TMPDIR/left" && echo >"$TMPDIR/left/file" && chmod 1500 "$TMPDIR/left" && echo made'
  hook reach.sh 'for user in alice bob; do cat "/home/$user/project/note"; echo new >>"/home/$user/project/note"; done; true'
  for name in write leave reach; do hookjail allow --profile workspace-rw -- "/srv/hooks/$name.sh"; done
  # Members of the group are callers, and their homes roots of workspaces, without a word about either.
  printf '[hooks]\nrun_as = "caller"\n' >/etc/hookjail/hookjail.toml
  restart
  hookjail doctor --connect /run/hookjail/hookjail.sock
  as() { # USER WORKSPACE HOOK
    runuser -u "$1" -- hookjail run --connect /run/hookjail/hookjail.sock --profile workspace-rw --workspace "$2" -- "/srv/hooks/$3" </dev/null
  }
  runs() { find /run/hookjail -mindepth 2 -name 'run-*'; }
  lines() { cat "/home/$1/project/note"; }
  for user in alice bob; do
    other=$([ "$user" = alice ] && echo bob || echo alice)
    as "$user" "/home/$user/project" write.sh | grep "of $user"
    [ "$(lines "$user")" = "of $user"$'\n'new ]
    [ "$(cat "/home/$user/project/.git/config")" = "of $user" ]
    # Files in a directory with the sticky bit need more rights for their removal than for writing.
    as "$user" "/home/$user/project" leave.sh | grep made
    for _ in $(seq 100); do [ -z "$(runs)" ] && break; sleep 0.1; done
    [ -z "$(runs)" ]
    # By the other's path, and with the other's project as workspace; in the own one it reads and writes.
    as "$user" "/home/$user/project" reach.sh >/tmp/reached
    grep "of $user" /tmp/reached
    if grep "of $other" /tmp/reached; then exit 1; fi
    before=$(lines "$other")
    if as "$user" "/home/$other/project" write.sh; then exit 1; fi
    [ "$(lines "$other")" = "$before" ]
    sed -i 1q "/home/$user/project/note"
  done
  rm /etc/hookjail/hookjail.toml
  restart

  rm /etc/systemd/system/hookjail.service.d/workspaces.conf
  systemctl daemon-reload
  restart

  # The administrator's file holds for everybody on the host, and no user's configuration is wider.
  alone() { runuser -u alice -- hookjail run --private "$@" -- /bin/echo served </dev/null; }
  alone | grep served
  printf '[run]\nprivate = false\n[profiles]\nallow = ["strict"]\n' >/etc/hookjail/managed.toml
  if alone >/tmp/refused 2>&1; then exit 1; fi
  grep 'run.private' /tmp/refused
  runuser -u alice -- hookjail config show | grep '^run.private .*false .*managed by /etc/hookjail/managed.toml'
  install -d -o alice /home/alice/.config /home/alice/.config/hookjail
  printf '[run]\nprivate = true\n' | runuser -u alice -- tee /home/alice/.config/hookjail/hookjail.toml
  if alone >/tmp/refused 2>&1; then exit 1; fi
  grep 'run.private.*managed.toml' /tmp/refused
  rm /home/alice/.config/hookjail/hookjail.toml
  printf '[profiles]\nallow = ["strict"]\n' >/etc/hookjail/managed.toml
  alone --profile strict | grep served
  if alone --profile pipeline >/tmp/refused 2>&1; then exit 1; fi
  grep PROFILE_UNKNOWN /tmp/refused
  rm /etc/hookjail/managed.toml

  # A daemon that is killed at once with its keeper leaves nothing that runs.
  echo '{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}' |
    hookjail run --as claude-code --connect /run/hookjail/hookjail.sock --profile strict -- /srv/hooks/guard.sh 2>/tmp/told &
  sleeping() { pgrep -f '^/bin/sleep 60$'; }
  for _ in $(seq 100); do sleeping && break; sleep 0.1; done
  sleeping
  pid=$(systemctl show -P MainPID hookjail.service)
  keeper=$(pgrep -P "$pid" -x hookjail-keeper)
  kill -KILL "$pid" "$keeper"
  code=0; wait $! || code=$?
  [ "$code" = 2 ]
  for _ in $(seq 100); do sleeping || break; sleep 0.1; done
  if sleeping; then exit 1; fi
  [[ $(call) == *OUTCOME_KIND_EXITED* ]]

  # Temporary causes that keep the daemon from starting, or from serving: once the cause is gone, the service recovers by itself.
  outage() { # WHAT, and the commands that make and end it
    local end served=
    echo "outage: $1" >&2
    eval "$2"
    systemctl kill -s KILL --kill-who=main hookjail.service || true
    end=$((SECONDS + 20))
    while [ "$SECONDS" -lt "$end" ]; do
      timeout 5 hookjail run --connect /run/hookjail/hookjail.sock --timeout 1s -- /bin/true </dev/null >/dev/null 2>&1 || true
      "${4:-true}"; sleep 0.3
    done
    eval "$3"
    end=$((SECONDS + 5))
    while [ "$SECONDS" -le "$end" ]; do
      [[ $(timeout 5 hookjail run --connect /run/hookjail/hookjail.sock --json -- /bin/true </dev/null 2>&1) != *OUTCOME_KIND_EXITED* ]] || { served=1; break; }
      sleep 0.2
    done
    [ -n "$served" ] || { journal | tail -n 20; echo "not served within 5 s after: $1" >&2; exit 1; }
  }
  state=/var/lib/hookjail
  set +x
  outage 'a state that is read-only' "mount --bind $state $state; mount -o remount,bind,ro $state" "umount $state"
  outage 'a full disk' \
    "cp -a $state /tmp/state; mount -t tmpfs -o size=8m,mode=700 none $state; cp -a /tmp/state/. $state; dd if=/dev/zero of=$state/full bs=64k 2>/dev/null || true" \
    "rm $state/full"
  umount --lazy "$state"; restart
  outage 'a wrong configuration' 'mkdir -p /etc/hookjail; echo nonsense = 1 >/etc/hookjail/hookjail.toml' 'rm /etc/hookjail/hookjail.toml'
  outage 'a damaged allowlist' "cp -a $state/allowlist.json /tmp/; echo '[{' >$state/allowlist.json" "cp -a /tmp/allowlist.json $state/"
  killed() { systemctl kill -s KILL --kill-who=main hookjail.service 2>/dev/null || true; }
  outage 'a daemon that is killed again and again' true true killed
  set -x
  [ "$(systemctl is-active hookjail.socket)" = active ]

  # Containers take more than the unit gives, and no more than the drop-in that is shipped for them.
  install -d -m 755 /etc/systemd/system/hookjail.service.d
  if [ -e crun ]; then
    install -m 755 crun /usr/bin/crun
    install -m 644 libyajl.so* /usr/lib
    ldconfig
    printf '[backends]\norder = ["container"]\n[container]\nruntime = "/usr/bin/crun"\n' >/etc/hookjail/hookjail.toml
    restart
    if hookjail doctor --connect /run/hookjail/hookjail.sock; then exit 1; fi
    install -m 644 systemd/hookjail.service.d/workspaces.conf.example /etc/systemd/system/hookjail.service.d/workspaces.conf
    install -m 644 systemd/hookjail.service.d/container.conf.example /etc/systemd/system/hookjail.service.d/container.conf
    systemctl daemon-reload
    restart
    hookjail doctor --connect /run/hookjail/hookjail.sock
    [[ $(call) == *'"backend":"container"'*OUTCOME_KIND_EXITED* ]]
    rm /etc/hookjail/hookjail.toml /etc/systemd/system/hookjail.service.d/*.conf
  fi

  # The error names the setting that stands in the way.
  printf '[Service]\nRestrictSUIDSGID=yes\n' >/etc/systemd/system/hookjail.service.d/suid.conf
  systemctl daemon-reload
  restart
  if call >/tmp/told; then exit 1; fi
  grep 'refuses the call `openat2`' /tmp/told | grep 'RestrictSUIDSGID='
  rm /etc/systemd/system/hookjail.service.d/suid.conf

  # A user's own daemon, under that user's manager. The tree has no PAM module that would set XDG_RUNTIME_DIR.
  install -d -m 755 /etc/systemd/system/user@.service.d
  printf '[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%i\n' >/etc/systemd/system/user@.service.d/runtime.conf
  systemctl daemon-reload
  systemctl start "user@$(id -u alice).service"
  own() { runuser -u alice -- env XDG_RUNTIME_DIR="/run/user/$(id -u alice)" "$@"; }
  own systemctl --user start hookjail.socket
  own hookjail doctor --connect "/run/user/$(id -u alice)/hookjail/hookjail.sock"
  own systemctl --user is-active hookjail.service
  own systemctl --user stop hookjail.service hookjail.socket

  # A daemon that hangs is replaced.
  printf '[Service]\nWatchdogSec=2\n' >/etc/systemd/system/hookjail.service.d/watchdog.conf
  systemctl daemon-reload
  restart
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
  restart

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
install -m 755 "$0" "$here/exposure.sh" "$payload/"
# The tree has no crun: this host's is copied, with the library that the tree lacks.
if crun=$(command -v crun); then
  install -m 755 "$crun" "$payload/crun"
  cp -L "$(ldd "$crun" | awk '/libyajl/ { print $3 }')" "$payload/"
else
  echo 'PART SKIPPED: containers under the unit: crun is not installed'
fi
"$here/nspawn-run.sh" -t 420 -p "$payload" -- bash ./systemd-test.sh --inside

# nspawn's own list of calls refuses Landlock's: nothing runs, for that reason.
refused=$("$here/nspawn-run.sh" -f -t 60 -p "$payload" -- './hookjail --json run -- /bin/true </dev/null' || true)
[[ $refused == *BACKEND_UNCONFIRMED* && $refused == *"Landlock's syscalls are refused here"* ]] ||
  { echo "under nspawn's own list of calls: $refused" >&2; exit 1; }
echo "systemd test: under nspawn's own list of calls it refuses, and says why"
