#!/bin/sh
# Checks the Python client: the output of generate.sh, the types, the tests against a daemon and a private one, the wheels.
#
# $HOOKJAIL names a built binary; without it one is built. $HOOKJAIL_STATIC names a directory with static `hookjail` and `hookjail-run`
# for this machine; without it the wheel with these is not checked, and a line reports that. Exits with 77, and the reason, where the
# package registry cannot be reached. Any other fault is a failure. Leaves nothing in the tree.
set -eu
cd "$(dirname "$0")"

fail() {
  echo "FAIL: $1" >&2
  exit 1
}

if [ -z "${HOOKJAIL:-}" ]; then
  (cd ../.. && cargo build --locked)
  HOOKJAIL=${CARGO_TARGET_DIR:-../../target}/debug/hookjail
fi
HOOKJAIL=$(realpath "$HOOKJAIL")
export HOOKJAIL PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# A build leaves files beside its source.
mkdir "$work/tree"
cp -RL ../../proto "$work/tree/"
mkdir "$work/tree/clients" "$work/tree/packaging"
cp -RL ../python "$work/tree/clients/"
cp ../../packaging/wheel.sh "$work/tree/packaging/"
tree=$work/tree/clients/python

grep -qx "version = \"$(sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' ../../Cargo.toml)\"" pyproject.toml ||
  fail "pyproject.toml has another version than Cargo.toml"

"${PYTHON:-python3}" -m venv "$work/venv"
if ! "$work/venv/bin/pip" install --quiet mypy types-grpcio types-protobuf pytest uv hatchling >"$work/log" 2>&1; then
  if "$work/venv/bin/pip" download --quiet --no-deps -d "$work/download" grpcio >/dev/null 2>&1; then
    cat "$work/log" >&2
    fail "the tools of the checks cannot be installed"
  fi
  tail -n 1 "$work/log"
  echo "SKIP: the Python package index cannot be reached"
  exit 77
fi

"$tree/generate.sh" "$work/generated" 2>"$work/log" || { cat "$work/log" >&2; fail "generate.sh"; }
diff -r -x __pycache__ src/hookjail/v1 "$work/generated/hookjail/v1" || fail "the protocol has changed: clients/python/generate.sh"
echo "ok: the messages and stubs are those of proto/"

# --- the client alone -------------------------------------------------------------------------------------------------

"$work/venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/pure" "$tree"
[ "$(ls "$work/pure")" = "hookjail-$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)-py3-none-any.whl" ] || fail "$(ls "$work/pure")"
"$work/venv/bin/pip" install --quiet "$work"/pure/*.whl
[ ! -e "$work/venv/bin/hookjail" ] || fail "the pure wheel has a program"
(cd "$tree" && "$work/venv/bin/mypy" && MYPYPATH=src:tests "$work/venv/bin/mypy" tests/*.py hatch_build.py)
# As installed: the source is out of the way.
mkdir "$work/run"
cp -R "$tree/tests" "$tree/README.md" "$work/run/"
chmod -R a+rX "$work/run"
(cd "$work/run" && "$work/venv/bin/python" -m pytest -q -p no:cacheprovider tests)

# --- with the programs ------------------------------------------------------------------------------------------------

if [ -z "${HOOKJAIL_STATIC:-}" ]; then
  echo "PART SKIPPED: the wheel with programs: HOOKJAIL_STATIC names none"
  exit 0
fi
target=$(uname -m)-unknown-linux-musl
PYTHON=$work/venv/bin/python "$work/tree/packaging/wheel.sh" "$HOOKJAIL_STATIC" "$target" "$work/whole"
wheel=$(echo "$work"/whole/*.whl)
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
"$work/venv/bin/pip" uninstall --quiet --yes hookjail
"$work/venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
for program in hookjail hookjail-run; do
  cmp "$work/venv/bin/$program" "$HOOKJAIL_STATIC/$program" || fail "$program is another one"
  [ -x "$work/venv/bin/$program" ] || fail "$program cannot be executed"
done
# Not that of $HOOKJAIL or PATH: these are not set.
(cd "$work/run" && env -u HOOKJAIL PATH=/usr/bin:/bin "$work/venv/bin/python" -c '
import hookjail, os, sys
from hookjail._private import find_program
assert find_program(None) == os.path.join(sys.prefix, "bin", "hookjail"), find_program(None)')
(cd "$work/run" && HOOKJAIL_TEST_WHEEL=1 HOOKJAIL=$work/venv/bin/hookjail \
  "$work/venv/bin/python" -m pytest -q -p no:cacheprovider tests/test_private.py)
# For `pip install --target`, which puts programs elsewhere.
"$work/venv/bin/pip" install --quiet --no-deps --target "$work/target" "$wheel"
(cd "$work/run" && env -u HOOKJAIL PATH=/usr/bin:/bin PYTHONPATH="$work/target" "$work/venv/bin/python" -c '
from hookjail._private import find_program
assert find_program(None).endswith("/target/bin/hookjail"), find_program(None)')
version=$(UV_CACHE_DIR=$work/uv "$work/venv/bin/uv" tool run --quiet --from "$wheel" hookjail --version)
[ "$version" = "$("$HOOKJAIL_STATIC/hookjail" --version)" ] || fail "uvx hookjail: $version"
echo "ok: the wheel with programs"
