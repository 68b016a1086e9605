#!/usr/bin/env bash
# Real kernels, emulated, each with a real hookjail: where Landlock is old (6.1: ABI 2), newer (6.12: ABI 6) or as new as
# Debian has it (ABI 9 is the newest that hookjail makes use of), `strict` and `pipeline` are confirmed, run, and hold
# against rows of the escape matrix, and on one of them containers are limited by control groups; where there is none (5.10) or it is switched off, nothing runs.
#   80-kernels.sh                    all of them
#   80-kernels.sh NAME...            some: 6.1 6.12 new off none arm64
. "$(dirname "$0")/lib.sh"
need_root
env=tests/testenv
[ $# -gt 0 ] || set -- 6.1 6.12 new off none arm64

# What depends on the kernel: Landlock's rights by files, links, directories and memory; its stand-ins; sockets; signals to
# others, tracing, leaving the group; namespaces, programs in the kernel, filters and numbers. The rest of the matrix is the
# same on every kernel and runs on this one (tier 30).
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

# Adds crun and runc, and what they need of libraries beside the C library: then control groups are tried, too.
with_runtimes() {
  local runtime library
  mkdir -p "$payload/runtimes/lib"
  for runtime in crun runc; do
    have $runtime || fail "$runtime is not installed"
    cp -L "$(command -v $runtime)" "$payload/runtimes/"
    for library in $(ldd "$(command -v $runtime)" | awk '$3 ~ /^\// && $1 !~ /^libc\./ {print $3}'); do
      cp -L "$library" "$payload/runtimes/lib/"
    done
  done
}

# Builds tests with the words that are given, and prints where cargo put the program made of a source.
tests_of() { # SOURCE WORD...
  local source=$1 path; shift
  cargo test --locked --no-run "$@" >"$payload/log" 2>&1 || { cat "$payload/log" >&2; fail "the tests of $source do not build"; }
  path=$(sed -n "s#^ *Executable .*$source (\(.*\))\$#\1#p" "$payload/log")
  [ -x "$path" ] || { cat "$payload/log" >&2; fail "cargo does not say where the tests of $source are"; }
  echo "$path"
}

boot() { # NAME KERNEL EXPECTED [ARGUMENT...]
  local name=$1 kernel=$2 expected=$3; shift 3
  echo "kernel $name: $expected"
  # Why not in parallel: two emulated machines on two cores take as long as one after the other.
  $env/vm-boot.sh -k "$kernel" -t 300 -p "$payload" "$@" || fail "kernel $name (rc $?)"
}

native() {
  timeout 120 $env/vm-prepare.sh deps || skip "packages for the emulator cannot be installed"
  timeout 150 $env/vm-prepare.sh rootfs || skip "the guest's tree cannot be made"
  # Optimised: under emulation a debug build spends minutes in the self-test.
  build_release
  spec=$(tests_of tests/spec/main.rs --test spec)
  pack "$RELEASE" "$spec" ""
  for name in "$@"; do
    case $name in off) kernel=6.1 ;; none) kernel=5.10 ;; *) kernel=$name ;; esac
    timeout 60 $env/vm-prepare.sh kernel "$kernel" || skip "kernel $kernel cannot be fetched"
    # On one of them: it takes a while.
    rm -rf "${payload:?}/runtimes"; [ "$name" != 6.1 ] || with_runtimes
    case $name in
      6.1) boot "$name" "$kernel" "ABI 2" -- "sh ./kernel-test.sh 2 ${rows[*]}" ;;
      6.12) boot "$name" "$kernel" "ABI 6" -- "sh ./kernel-test.sh 6 ${rows[*]}" ;;
      new) boot "$name" "$kernel" "ABI 9 or newer" -- "sh ./kernel-test.sh 9 ${rows[*]}" ;;
      off) boot "$name" "$kernel" "switched off" -a lsm=lockdown,yama -- "sh ./kernel-test.sh off" ;;
      none) boot "$name" "$kernel" "no Landlock" -- "sh ./kernel-test.sh none" ;;
      *) fail "kernel $name? 6.1 6.12 new off none arm64" ;;
    esac
  done
}

# An ELF program of 32-bit ARM that exits with 42: mov r0, #42; mov r7, #1; svc 0.
foreign() {
  printf '\177ELF\1\1\1\0\0\0\0\0\0\0\0\0\2\0\50\0\1\0\0\0\124\0\1\0\64\0\0\0\0\0\0\0\0\2\0\5\64\0\40\0\1\0\50\0\0\0\0\0'
  printf '\1\0\0\0\0\0\0\0\0\0\1\0\0\0\1\0\140\0\0\0\140\0\0\0\5\0\0\0\0\0\1\0'
  printf '\52\0\240\343\1\160\240\343\0\0\0\357'
}

# Nothing else to run: then the tier is skipped, and otherwise only this part of it.
not_here() { [ ${#others[@]} -gt 0 ] || skip "$*"; part_skipped "$*"; }

# Another architecture: built here, run there. Without systemd, in a tree that is unpacked over the guest's empty root.
arm64() {
  local target=aarch64-unknown-linux-gnu
  export TESTENV_ARCH=arm64 DEBIAN_FRONTEND=noninteractive
  [ -d "$(rustc --print target-libdir --target $target)" ] || timeout 120 rustup target add $target ||
    { not_here "arm64: the compiler's library for $target cannot be had"; return; }
  { timeout 120 $env/vm-prepare.sh deps && apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install \
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null; } || { not_here "arm64: packages cannot be installed"; return; }
  { timeout 60 $env/vm-prepare.sh kernel 6.12 && timeout 60 $env/vm-prepare.sh tree; } ||
    { not_here "arm64: the guest's kernel or tree cannot be had"; return; }
  # Not optimised: that would take longer to build than it saves in one guest.
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
  spec=$(tests_of tests/spec/main.rs --target $target --test spec)
  unit=$(tests_of src/lib.rs --target $target --lib)
  pack "$CARGO_TARGET_DIR/$target/debug/hookjail" "$spec" aarch64-linux-gnu-
  aarch64-linux-gnu-strip -o "$payload/unit" "$unit"
  cp "$TESTENV_CACHE/tree-arm64.tar" "$payload/tree.tar"
  foreign >"$payload/foreign"
  # Of the 32-bit rows that program is tried instead: the others are calls of x86.
  boot arm64 6.12 "ABI 6" -n -- "tar -C / -xf tree.tar; rm tree.tar; chmod 755 /; mkdir -p -m 755 /run /root; ifconfig lo up
    PATH=/usr/bin:/usr/sbin:/bin:/sbin exec /bin/dash ./kernel-test.sh 6 ${rows[*]}"
}

others=()
for name in "$@"; do [ "$name" = arm64 ] || others+=("$name"); done
[ ${#others[@]} = 0 ] || native "${others[@]}"
case " $* " in *" arm64 "*) arm64 ;; esac
