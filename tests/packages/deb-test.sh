#!/usr/bin/env bash
# Installs the Debian package under a real systemd, calls the daemon as an ordinary user, upgrades from the version before, and purges.
# Only the journal may remain.
#   deb-test.sh PACKAGE.deb       on the host: boots the container (needs `vm-prepare.sh rootfs`)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# In the container, as root.
inside() {
  set -x
  # Everything that an installation can leave: files with mode and owner, users, groups, units and their states.
  state() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /payload -o -path /run -o -path /var/log -o -path /var/cache \
      -o -path /var/lib/dpkg -o -path /var/lib/systemd/random-seed \) -prune -o \
      -printf '%M %u %g %p %l\n' | LC_ALL=C sort
    find /run -name '*hookjail*' -printf '%M %u %g %p\n' | LC_ALL=C sort
    # The numbers of packages' files are dpkg's own; this is the list of packages with their states.
    dpkg-query -W -f '${Package} ${db:Status-Status}\n'
    getent passwd; getent group
    systemctl list-unit-files --no-legend --no-pager; systemctl list-units --all --no-legend --no-pager 'hookjail*'
  }
  active() { [ "$(systemctl show -P ActiveState "hookjail.$1")" = active ]; }
  as_ada() { runuser -u ada -- "$@" </dev/null; }
  hook() { as_ada hookjail run --json "$@"; }

  useradd --create-home ada
  # Two, so that the copies that the tools keep of their files (/etc/group-) are there before.
  useradd --create-home bob
  echo secret >/srv/secret; chmod 644 /srv/secret
  state >/tmp/before

  # From nothing to the first confined hook, by the steps of docs/install.md.
  began=$(date +%s%N)
  dpkg --install new.deb
  # The programs serve one user without it, and without a group.
  code=0; systemctl is-enabled hookjail.service hookjail.socket || code=$?
  [ "$code" != 0 ]
  if active service || active socket; then exit 1; fi
  as_ada hookjail run -- /bin/cat /etc/os-release | grep 'confirmed, served by this process alone'
  # Her own records are hers: no package removes them.
  as_ada rm -r /home/ada/.cache /home/ada/.local
  systemctl enable --now hookjail.service hookjail.socket
  usermod -aG hookjail ada
  hookjail allow -- /bin/cat /etc/os-release
  as_ada hookjail run -- /bin/cat /etc/os-release >/tmp/first
  took=$((($(date +%s%N) - began) / 1000000))
  grep 'outcome .*exited, code 0' /tmp/first
  grep 'sandbox .*landlock, .*confirmed' /tmp/first
  grep 'served by .*/run/hookjail/hookjail.sock' /tmp/first
  echo "FIRST HOOK: deb ${took} ms"

  active service; active socket
  systemctl is-enabled hookjail.service hookjail.socket
  [ "$(stat -c '%a %U %G' /run/hookjail/hookjail.sock)" = '660 root hookjail' ]
  [ "$(stat -c '%a %U %G' /var/lib/hookjail)" = '700 root root' ]
  dpkg-query -W -f '${Conffiles}' hookjail | grep '^ /etc/hookjail/hookjail.toml '
  # The control of confinement: ada can read a file that her hook cannot.
  as_ada /bin/cat /srv/secret | grep secret
  hookjail allow -- /bin/cat /srv/secret
  code=0; as_ada hookjail run --mirror -- /bin/cat /srv/secret >/tmp/out 2>/tmp/err || code=$?
  [ "$code" = 1 ]
  grep 'Permission denied' /tmp/err
  if grep secret /tmp/out; then exit 1; fi
  # A user outside of the group is no caller.
  if runuser -u bob -- hookjail run --connect /run/hookjail/hookjail.sock -- /bin/cat /etc/os-release </dev/null; then exit 1; fi

  # Purged, with all that it wrote and an administrator beside it.
  printf '[run]\nprivate = true\n' >/etc/hookjail/managed.toml
  purged() {
    dpkg --purge hookjail 2>/tmp/err
    # The journal alone stays, whole, and the purge names it.
    [ "$(ls /var/lib/hookjail)" = audit ]
    grep '"record":"ended"' /var/lib/hookjail/audit/journal.jsonl >/tmp/ends
    grep 'remove it with: rm -r /var/lib/hookjail$' /tmp/err
    rm -r /var/lib/hookjail
    state >/tmp/after
    diff /tmp/before /tmp/after
  }
  purged

  # An upgrade: configuration and consents stay, the daemon is the new one, a running hook keeps its answer.
  dpkg --install old.deb
  usermod -aG hookjail ada
  systemctl enable --now hookjail.service hookjail.socket
  active service
  systemctl show -P Environment hookjail.service | grep OF_THE_VERSION_BEFORE
  hookjail allow -- /bin/sleep 2
  hookjail allow -- /bin/cat /etc/os-release
  printf '\n[metrics]\nlisten = "127.0.0.1:9464"\n' >>/etc/hookjail/hookjail.toml
  systemctl restart hookjail.service
  cp /etc/hookjail/hookjail.toml /tmp/configured
  pid=$(systemctl show -P MainPID hookjail.service)
  hook -- /bin/sleep 2 >/tmp/answer & waiting=$!
  for _ in $(seq 100); do [ "$(hookjail ps --json | grep -c sleep)" = 0 ] || break; sleep 0.02; done
  hookjail ps --json | grep sleep
  dpkg --install new.deb
  wait "$waiting"
  grep OUTCOME_KIND_EXITED /tmp/answer
  active service; active socket
  [ "$(systemctl show -P MainPID hookjail.service)" != "$pid" ]
  if systemctl show -P Environment hookjail.service | grep OF_THE_VERSION_BEFORE; then exit 1; fi
  cmp /etc/hookjail/hookjail.toml /tmp/configured
  hook -- /bin/cat /etc/os-release | grep OUTCOME_KIND_EXITED
  hookjail status | grep 'metrics .*127.0.0.1:9464'
  hookjail audit verify

  # An upgrade enables no unit that an administrator has disabled.
  systemctl disable --now hookjail.service hookjail.socket
  dpkg --install new.deb
  code=0; systemctl is-enabled hookjail.service || code=$?
  [ "$code" != 0 ]
  systemctl enable --now hookjail.service

  # After the removal the daemon is gone and its state stays, until the purge. Settings with hookjail's lines are named, and stay.
  as_ada mkdir -p /home/ada/.claude
  runuser -u ada -- tee /home/ada/.claude/settings.json >/tmp/bare <<<'{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}}'
  (cd /home/ada && as_ada hookjail install claude-code --yes)
  if cmp /tmp/bare /home/ada/.claude/settings.json; then exit 1; fi
  # Her own daemon.
  pkill -u ada -x hookjail || true
  for _ in $(seq 100); do pgrep -u ada -x hookjail || break; sleep 0.1; done
  dpkg --remove hookjail 2>/tmp/err
  grep 'ada: /home/ada/.claude/settings.json' /tmp/err
  grep 'hookjail uninstall --all' /tmp/err
  rm -rf /home/ada/.claude /home/ada/.local /home/ada/.cache
  [ "$(systemctl show -P ActiveState hookjail.service)" = inactive ]
  [ ! -e /usr/bin/hookjail ]
  [ -e /etc/hookjail/hookjail.toml ]
  [ -e /var/lib/hookjail/allowlist.json ]
  if pgrep -x hookjail; then exit 1; fi
  purged
  if systemctl --failed --no-legend --no-pager | grep hookjail; then exit 1; fi
  echo "installed, called, upgraded, removed, purged: nothing but the journal is left"
}
[ "$1" != --inside ] || { inside; exit; }

package=$(realpath "$1")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; chmod 755 "$work"
mkdir "$work/payload"
cp "$package" "$work/payload/new.deb"
# The version before: the same, but for its number and a unit that differs.
dpkg-deb --raw-extract "$package" "$work/old"
sed -i 's/^Version: .*/Version: 0.0.1-1/' "$work/old/DEBIAN/control"
sed -i 's/^\[Service\]$/&\nEnvironment=OF_THE_VERSION_BEFORE=1/' "$work/old/usr/lib/systemd/system/hookjail.service"
(cd "$work/old" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
dpkg-deb --root-owner-group -Zgzip --build "$work/old" "$work/payload/old.deb" >/dev/null
cp "$here/deb-test.sh" "$work/payload/"
"$here/../testenv/nspawn-run.sh" -p "$work/payload" -t 180 -- bash deb-test.sh --inside
