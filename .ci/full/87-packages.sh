#!/usr/bin/env bash
# Everything that a release consists of, made from a clean tree, and installed from these files into clean roots.
. "$(dirname "$0")/../lib.sh"
need_root
CARGO_DEB=3.8.0
env=tests/testenv
times=$(mktemp); trap 'rm -f "$times"' EXIT
# Runs a test under a time limit, and keeps its line about the first hook.
timed() { # SECONDS COMMAND...
  local limit=$1 out; out=$(mktemp); shift
  timeout --kill-after=20 "$limit" "$@" 2>&1 | tee "$out" || fail "$(printf '%s\n' "$@" | grep -m 1 'tests/')"
  sed -n 's/^FIRST HOOK: //p' "$out" >>"$times"; rm "$out"
}

{ apt-get -qq update && packages advancecomp busybox-static musl-tools binutils clang libdeflate-tools lintian mmdebstrap podman qemu-system-arm ruby systemd-container xz-utils zstd; } ||
  skip "packages cannot be installed"
targets=
for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
  if add_target $target; then targets+=" $target"; else part_skipped "$target: the compiler's library for it cannot be had"; fi
done
[ -n "$targets" ] || skip "no static program can be built"

# Not optimised, as cargo-deny.
tools=$CI_WORK/cargo-deb-$CARGO_DEB
[ -x "$tools/bin/cargo-deb" ] ||
  CARGO_TARGET_DIR=$CI_WORK/cargo-deb.target cargo install --quiet --debug --locked --root "$tools" cargo-deb@$CARGO_DEB
rm -rf "$CI_WORK/cargo-deb.target"
belongs_to user
as_user env PATH="$tools/bin:$USER_PATH" HOOKJAIL_TARGETS="$targets" packaging/build.sh
out=$CLONE/target/packages
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

(cd "$out" && sha256sum --check --quiet SHA256SUMS) || fail "the checksums"
# A second build from the same programs must be the same, the Debian package included.
cp "$out/SHA256SUMS" "$CI_WORK/sums"
as_user env PATH="$tools/bin:$USER_PATH" HOOKJAIL_TARGETS="$targets" packaging/build.sh pages papers deb tarball image sources homebrew sums >/dev/null
diff "$CI_WORK/sums" "$out/SHA256SUMS" || fail "made twice, these differ"

lintian --fail-on error --tag-display-limit 0 "$out"/*_amd64.deb || fail "lintian has errors"
ruby -c "$out/hookjail.rb"
grep -q "sha256 \"$(sha256sum "$out/hookjail-$version.tar.gz" | cut -d ' ' -f 1)\"" "$out/hookjail.rb" || fail "the formula has another archive's checksum"
# The archive is a source of the program: Cargo finds everything that its manifest names.
tar -C "$CI_WORK" -xzf "$out/hookjail-$version.tar.gz"
(cd "$CI_WORK/hookjail-$version" && cargo metadata --locked --format-version 1 >/dev/null) || fail "the source archive is not whole"
rm -rf "$CI_WORK/hookjail-$version"
if python_with tests/packages/requirements.txt; then
  for list in "$out"/*.cdx.json; do "$PYTHON" tests/packages/sbom.py "$list"; done
else part_skipped "the lists of libraries: the validator cannot be had"; fi

if timeout 200 $env/vm-prepare.sh rootfs; then timed 300 tests/packages/deb-test.sh "$out/hookjail_$version-1_amd64.deb"
else part_skipped "the Debian package: no tree with systemd can be had"; fi

bases=()
for pair in "Debian 11=bullseye" "Ubuntu 22.04=jammy"; do
  if timeout 300 $env/vm-prepare.sh base "${pair#*=}"; then bases+=("${pair%%=*}=$TESTENV_CACHE/base-${pair#*=}.tar")
  else part_skipped "${pair%%=*}: its packages cannot be had"; fi
done
# Alpine's packages are not in Debian's archive.
part_skipped "the tarball on Alpine itself; a root with busybox and musl stands in for it"
timed 300 tests/packages/roots-test.sh "$out/hookjail-$version-x86_64-linux.tar.xz" "$out/hookjail_$version-1_amd64.deb" "${bases[@]}"

timed 200 tests/packages/image-test.sh "$out/hookjail-$version-oci.tar"

if compgen -G "$out/*.whl" >/dev/null || compgen -G "$out/*.tgz" >/dev/null; then
  # Authorities that Node.js trusts beyond its own list, where a proxy leads to the registry.
  timed 300 "${AS_USER[@]}" ${NODE_EXTRA_CA_CERTS:+NODE_EXTRA_CA_CERTS="$NODE_EXTRA_CA_CERTS"} tests/packages/languages-test.sh "$out"
fi

aarch64() {
  local payload tarball=$out/hookjail-$version-aarch64-linux.tar.xz
  local -x TESTENV_ARCH=arm64
  [ -e "$tarball" ] || { part_skipped "aarch64: not built"; return; }
  [ "$(dpkg-deb --field "$out/hookjail_$version-1_arm64.deb" Architecture)" = arm64 ] || fail "the package of arm64 says otherwise"
  { timeout 120 $env/vm-prepare.sh deps && timeout 60 $env/vm-prepare.sh kernel 6.12; } || { part_skipped "aarch64: the guest's kernel cannot be had"; return; }
  payload=$(mktemp -d); chmod 755 "$payload"
  cp "$tarball" "$payload/hookjail.tar.xz"
  # Where nothing is but busybox, in an emulator, which takes twenty times as long.
  timed 400 $env/vm-boot.sh -k 6.12 -t 300 -p "$payload" -n -- "chmod 755 /; mkdir -p -m 755 /run /root /usr /lib /srv; ifconfig lo up
    export NO_COLOR=1; echo secret >/srv/secret
    busybox tar -C /usr --strip-components 1 -xJf hookjail.tar.xz || exit
    /usr/bin/hookjail run --timeout 60s -- /bin/busybox echo served </dev/null >out || { cat out; exit 1; }
    cat out; grep -q '^sandbox .*landlock, .*confirmed' out || exit
    busybox cat /srv/secret | grep -q secret || exit
    ! /usr/bin/hookjail run --mirror --timeout 60s -- /bin/busybox cat /srv/secret </dev/null >out 2>&1 || exit
    grep -q 'Permission denied' out && echo 'aarch64: unpacked, a hook ran, the other was denied'"
  rm -rf "$payload"
}
aarch64

printf '\nFrom nothing to the first confined hook:\n'
awk '{ ms = $(NF - 1); NF -= 2; printf "%8.1f s  %s\n", ms / 1000, $0; if (ms > 60000) late = 1 } END { exit late || NR == 0 }' "$times" ||
  fail "none, or one of them takes more than a minute"
