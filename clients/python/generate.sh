#!/bin/sh
# Writes src/hookjail/v1 anew from the .proto files, or into DIR: generate.sh [DIR]
# Needs Python with venv, and a package registry.
set -eu
cd "$(dirname "$0")"
to=$(realpath "${1:-src}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
# These decide which versions of grpcio and protobuf the package works with: see pyproject.toml.
"$work/venv/bin/pip" install --quiet --disable-pip-version-check grpcio-tools==1.72.2 mypy-protobuf==5.1.0 'setuptools<81'
mkdir "$work/out"
(cd ../../proto && PATH=$work/venv/bin:$PATH "$work/venv/bin/python" -m grpc_tools.protoc -I . --python_out="$work/out" \
  --pyi_out="$work/out" --grpc_python_out="$work/out" --mypy_grpc_out=quiet:"$work/out" hookjail/v1/*.proto)
# Has no service.
rm "$work"/out/hookjail/v1/types_pb2_grpc.py*
echo '"""The messages and stubs of the protocol, made by generate.sh from its .proto files."""' >"$work/out/hookjail/v1/__init__.py"
mkdir -p "$to/hookjail"
rm -rf "$to/hookjail/v1"
cp -r "$work/out/hookjail/v1" "$to/hookjail/"
