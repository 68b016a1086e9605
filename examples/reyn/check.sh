#!/bin/sh
# Runs reyn's own code with hookjail_backend.py and a private daemon.
#
# $HOOKJAIL names a built binary, $HOOKJAIL_REYN a checkout of reyn's source: the package index has no release of it. Exits 77, with the reason,
# where that or the index cannot be had.
set -eu
cd "$(dirname "$0")"
HOOKJAIL=$(realpath "${HOOKJAIL:?names no built binary}")
export HOOKJAIL PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

if [ ! -e "${HOOKJAIL_REYN:-}/src/reyn/security/sandbox/backend.py" ]; then
  echo "SKIP: HOOKJAIL_REYN names no source of reyn's"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
cp -RL ../../clients/python "$work/client"
# Requirements of this part of reyn; its user interfaces are left out.
if ! "$work/venv/bin/pip" install --quiet "$work/client" jinja2 jsonschema pydantic pyyaml >"$work/log" 2>&1; then
  tail -n 1 "$work/log"
  echo "SKIP: the Python package index cannot be reached"
  exit 77
fi
PYTHONPATH=$HOOKJAIL_REYN/src "$work/venv/bin/python" test_backend.py
