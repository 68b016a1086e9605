#!/bin/sh
# Builds every fuzz target and runs each for SECONDS (default 60), two at a time; fails if one of them crashes.
# Needs a stable compiler and a C++ compiler (libFuzzer is built from source), but no sanitizer: the targets are safe Rust.
# The targets look for panics, overflows, failed assertions, hangs and excessive use of memory.
set -eu
seconds=${1:-60}
cd "$(dirname "$0")"

if ! command -v c++ >/dev/null; then
  echo "fuzz: a C++ compiler is needed (Debian: apt-get install g++)" >&2
  exit 1
fi

host=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-target}
# With an explicit --target these flags reach the targets only, not build scripts.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=8 -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
  cargo build --locked --release --bins --target "$host" --target-dir "$target_dir"

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT INT TERM

fuzz() {
  target=$1
  # New inputs go to corpus/, which stays; crashes to artifacts/.
  mkdir -p "corpus/$target" "artifacts/$target"
  if "$target_dir/$host/release/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=16384 \
    -print_final_stats=1 -artifact_prefix="artifacts/$target/" "corpus/$target" "seeds/$target" \
    >"$logs/$target" 2>&1; then
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target")
    if [ "${executions:-0}" -gt 0 ]; then
      echo "$target: $executions executions in $seconds s"
      return 0
    fi
  fi
  echo "$target: FAILED" >&2
  tail -n 40 "$logs/$target" >&2
  return 1
}

failed=0
running=
for file in fuzz_targets/*.rs; do
  target=$(basename "$file" .rs)
  fuzz "$target" &
  if [ -z "$running" ]; then
    running=$!
    continue
  fi
  second=$!
  wait "$running" || failed=1
  wait "$second" || failed=1
  running=
done
if [ -n "$running" ]; then
  wait "$running" || failed=1
fi
exit "$failed"
