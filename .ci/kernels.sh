# shellcheck shell=bash
# Real kernels, emulated, each with a real hookjail. Landlock is old (6.1: ABI 2), newer (6.12: ABI 6) or Debian's newest; the
# newest ABI that hookjail uses is 9. There `strict` and `pipeline` are confirmed, run, and hold against rows of the escape matrix.
# Without Landlock (5.10), or with Landlock disabled, nothing runs. Sourced by the tiers 38 and 80.
env=tests/testenv

# Rows that depend on the kernel: Landlock's rights by files, links, directories and memory, and its stand-ins. Further, sockets,
# signals to others, tracing, leaving the group, namespaces, programs in the kernel, filters and numbers. The rest of the matrix is
# the same on every kernel and runs on this one (tier 30).
rows=(ESC-001 ESC-003 ESC-004 ESC-007 ESC-009 ESC-012 ESC-014 ESC-015 ESC-030 ESC-045
  ESC-060 ESC-064 ESC-070 ESC-074 ESC-075 ESC-076
  ESC-100 ESC-101 ESC-104 ESC-105 ESC-113 ESC-116
  ESC-150 ESC-151 ESC-154 ESC-165 ESC-166 ESC-168 ESC-169)

payload=$(mktemp -d); trap 'rm -rf "$payload"' EXIT; chmod 755 "$payload"

# Puts what a guest needs into the payload: the program, the tests, the attempts. Stripped: unpacking is slow there.
pack() { # PROGRAM SPEC TOOL-PREFIX
  rm -rf "${payload:?}"/*
  "${3}strip" -o "$payload/hookjail" "$1"
  "${3}strip" -o "$payload/spec" "$2"
  "${3}gcc" -static -O1 -w -o "$payload/attempt" tests/probes/attempt.c
  cp -r examples/events examples/hooks "$payload/"
  install -m 755 $env/kernel-test.sh "$payload/"
}

# Adds the daemon's AppArmor profile and its parser, which needs the C library alone.
with_apparmor() {
  packages apparmor || fail "apparmor cannot be installed"
  mkdir -p "$payload/apparmor/etc/apparmor.d"
  cp -r /etc/apparmor.d/abi /etc/apparmor.d/tunables "$payload/apparmor/etc/apparmor.d/"
  cp packaging/apparmor/hookjail-daemon "$payload/apparmor/etc/apparmor.d/"
  cp /usr/sbin/apparmor_parser "$payload/apparmor/"
}

# Adds the units, a program whose policy can be weakened, crun and runc, and what they need of libraries beside the C library: then
# cgroups are tried, too.
with_groups() {
  local runtime library
  packages crun runc || fail "crun and runc cannot be installed"
  mkdir -p "$payload/runtimes/lib"
  cp -r systemd "$payload/"
  strip -o "$payload/weak" "$PROGRAM"
  for runtime in crun runc; do
    cp -L "$(command -v $runtime)" "$payload/runtimes/"
    for library in $(ldd "$(command -v $runtime)" | awk '$3 ~ /^\// && $1 !~ /^libc\./ {print $3}'); do
      cp -L "$library" "$payload/runtimes/lib/"
    done
  done
}

boot() { # NAME KERNEL EXPECTED [ARGUMENT...]
  local name=$1 kernel=$2 expected=$3 seconds=600; shift 3
  # Some 500 s where nothing else runs.
  [ "$name" != groups ] || seconds=900
  echo "kernel $name: $expected"
  # Why not in parallel: two emulated machines on two cores take as long as one after the other.
  $env/vm-boot.sh -k "$kernel" -t $seconds -p "$payload" "$@" || fail "kernel $name (rc $?)"
}

# Most of it needs no systemd: a tree is unpacked over the guest's empty root.
in_tree() { # WORDS...
  echo "tar -C / -xf tree.tar; rm tree.tar; chmod 755 /; mkdir -p -m 755 /run /root; ifconfig lo up
    PATH=/usr/bin:/usr/sbin:/bin:/sbin exec /bin/dash ./kernel-test.sh $*"
}

native() { # PROGRAM NAME...   of 6.1 6.12 new off none, and groups: cgroups on 6.1
  local program=$1 name kernel; shift
  flock "$CI_WORK/apt.lock" timeout 120 $env/vm-prepare.sh deps || skip "packages for the emulator cannot be installed"
  timeout 60 $env/vm-prepare.sh tree || skip "the guest's tree cannot be made"
  pack "$program" "$(tests_of spec)" ""
  for name in "$@"; do
    case $name in groups|off) kernel=6.1 ;; none) kernel=5.10 ;; *) kernel=$name ;; esac
    timeout 60 $env/vm-prepare.sh kernel "$kernel" || skip "kernel $kernel cannot be fetched"
    cp "$TESTENV_CACHE/tree.tar" "$payload/"
    case $name in
      6.1) boot "$name" "$kernel" "ABI 2" -n -- "$(in_tree 2 "${rows[@]}")" ;;
      6.12) boot "$name" "$kernel" "ABI 6" -n -- "$(in_tree 6 "${rows[@]}")" ;;
      new) boot "$name" "$kernel" "ABI 9 or newer" -n -- "$(in_tree 9 "${rows[@]}")" ;;
      off) boot "$name" "$kernel" "switched off" -a lsm=lockdown,yama -n -- "$(in_tree off)" ;;
      none) boot "$name" "$kernel" "no Landlock" -n -- "$(in_tree none)" ;;
      groups)
        # systemd leaves the controllers to the groups.
        timeout 150 $env/vm-prepare.sh rootfs || skip "the guest's tree with systemd cannot be made"
        with_groups; with_apparmor
        boot "$name" "$kernel" "ABI 2, cgroups" -- "sh ./kernel-test.sh 2"
        rm -rf "${payload:?}/runtimes" "$payload/systemd" "$payload/apparmor" "$payload/weak" ;;
      *) fail "kernel $name? 6.1 6.12 new off none groups" ;;
    esac
  done
}

# An ELF program of 32-bit ARM that exits with 42: mov r0, #42; mov r7, #1; svc 0.
foreign() {
  printf '\177ELF\1\1\1\0\0\0\0\0\0\0\0\0\2\0\50\0\1\0\0\0\124\0\1\0\64\0\0\0\0\0\0\0\0\2\0\5\64\0\40\0\1\0\50\0\0\0\0\0'
  printf '\1\0\0\0\0\0\0\0\0\0\1\0\0\0\1\0\140\0\0\0\140\0\0\0\5\0\0\0\0\0\1\0'
  printf '\52\0\240\343\1\160\240\343\0\0\0\357'
}

# Another architecture: built here, run there. Without systemd, in a tree that is unpacked over the guest's empty root.
arm64() {
  local target=aarch64-unknown-linux-gnu
  local -x TESTENV_ARCH=arm64
  add_target $target || { part_skipped "arm64: the compiler's library for $target cannot be had"; return; }
  { timeout 120 $env/vm-prepare.sh deps && packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross; } ||
    { part_skipped "arm64: packages cannot be installed"; return; }
  { timeout 60 $env/vm-prepare.sh kernel 6.12 && timeout 60 $env/vm-prepare.sh tree; } ||
    { part_skipped "arm64: the guest's kernel or tree cannot be had"; return; }
  # Not optimised: that would take longer to build than it saves in one guest.
  belongs_to user
  as_user env CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    cargo test --locked --target $target --package hookjail --lib --test spec --no-run --message-format=json-render-diagnostics >"$payload/built"
  test_of() { jq -r "select(.reason == \"compiler-artifact\" and .profile.test and .target.kind == [\"$1\"]).executable" "$payload/built"; }
  spec=$(test_of test) unit=$(test_of lib)
  pack "$CARGO_TARGET_DIR/$target/debug/hookjail" "$spec" aarch64-linux-gnu-
  aarch64-linux-gnu-strip -o "$payload/unit" "$unit"
  cp "$TESTENV_CACHE/tree-arm64.tar" "$payload/tree.tar"
  foreign >"$payload/foreign"
  # Of the 32-bit rows that program is tried instead: the others are calls of x86.
  boot arm64 6.12 "ABI 6" -n -- "$(in_tree 6 "${rows[@]}")"
}
