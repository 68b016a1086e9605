#!/bin/sh
# Writes hookjailpb anew, or to DIRECTORY/hookjailpb: generate.sh [DIRECTORY]. The generators are Debian 13's.
set -eu
cd "$(dirname "$0")"
out=${1:-.}
. ./toolchain.sh
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
toolchain "$work"
go build -o "$work/bin/" ./internal/generate google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
"$work/bin/generate" ../../src/pb/descriptors.bin "$out" "$work/bin/protoc-gen-go" "$work/bin/protoc-gen-go-grpc"
