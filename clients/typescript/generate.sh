#!/bin/sh
# Writes src/gen anew from the .proto files, or the directory that is given. Needs the packages of `npm ci`.
set -eu
cd "$(dirname "$0")"
out=$(realpath -m "${1:-src/gen}")
export PATH="$PWD/node_modules/.bin:$PATH"
rm -rf "$out"
for protos in ../../proto proto; do
  (cd "$protos" && buf generate --template "{\"version\": \"v2\", \"plugins\": [{\"local\": \"protoc-gen-es\", \"out\": \"$out\",
    \"opt\": [\"target=ts\", \"import_extension=js\"]}]}")
done
