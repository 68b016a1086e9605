#!/usr/bin/env bash
# Loads the image with podman, runs a hook in it, and calls its daemon from another container. As root; needs podman and busybox-static.
#   image-test.sh hookjail-VERSION-oci.tar
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "${2:-}" = --free ] || exec "$here/../testenv/hybrid-free.sh" bash "$0" "$(realpath "$1")" --free
work=$(mktemp -d); chmod 755 "$work"
wrong() { echo "WRONG: $*" >&2; exit 1; }
# Storage of its own, and nothing of the host's settings.
podman() { command podman --root "$work/root" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs --events-backend none "$@"; }
# crun gives the container's user what it has as standard input, which is the host's own /dev/null.
null=$(stat -c %u:%g /dev/null)
trap 'podman rm --all --force --time 0 >/dev/null 2>&1; rm -rf "$work"; chown "$null" /dev/null' EXIT
name=$(basename "$1" -oci.tar); image=localhost/hookjail:${name#hookjail-}
# Limits that this host's root may set, in place of podman's.
run=(run --rm --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --network none --cgroups disabled --read-only --volume "$(command -v busybox):/bin/busybox:ro")

began=$(date +%s%N)
podman load --quiet --input "$1"
podman "${run[@]}" "$image" run -- /bin/busybox echo served >"$work/out" || { cat "$work/out"; wrong "no hook runs"; }
echo "FIRST HOOK: image $((($(date +%s%N) - began) / 1000000)) ms"
grep -q '^sandbox .*landlock, .*confirmed' "$work/out" || { cat "$work/out"; wrong "not confined"; }
[ "$(podman image inspect --format '{{.User}} {{.Os}}/{{.Architecture}} {{index .Labels "org.opencontainers.image.version"}}' "$image")" = \
  "65532:65532 linux/amd64 ${name#hookjail-}" ] || wrong "the image says: $(podman image inspect "$image")"

# A hook cannot read a file that is readable in the container.
cat=(/bin/busybox cat /etc/hookjail/hookjail.toml)
podman "${run[@]}" --entrypoint "${cat[0]}" "$image" "${cat[@]:1}" | grep -q '\[server\]' || wrong "the file cannot be read without hookjail"
code=0; podman "${run[@]}" "$image" run --mirror -- "${cat[@]}" >"$work/out" 2>"$work/err" || code=$?
[ "$code" = 1 ] && [ ! -s "$work/out" ] && grep -q 'Permission denied' "$work/err" || { cat "$work/out" "$work/err"; wrong "a hook read what it may not ($code)"; }

# As the image starts without a word: a daemon, as its user, called over its socket from beside.
daemon=$(podman "${run[@]/--rm/--detach}" --volume state:/run/hookjail --volume allow:/var/lib/hookjail "$image")
called() { podman exec "$daemon" /usr/bin/hookjail --config /etc/hookjail/hookjail.toml "$@"; }
for _ in $(seq 100); do called status >"$work/out" 2>&1 && break; sleep 0.1; done
grep -q 'serving' "$work/out" || { cat "$work/out"; podman logs "$daemon"; wrong "no daemon serves"; }
called allow -- /bin/busybox echo beside >/dev/null
podman "${run[@]}" --volume state:/run/hookjail "$image" run -- /bin/busybox echo beside >"$work/out" || { cat "$work/out"; wrong "the daemon cannot be called"; }
grep -q 'served by .*hookjail.sock' "$work/out" || { cat "$work/out"; wrong "another has served"; }
podman stop --time 20 "$daemon" >/dev/null
[ "$(podman inspect --format '{{.State.ExitCode}}' "$daemon")" = 0 ] || wrong "the daemon did not end well"
echo "image: loaded, a hook ran, the other was denied, a daemon served from beside and ended"
