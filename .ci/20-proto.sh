#!/usr/bin/env bash
# The .proto files keep to buf's rules, comments included.
. "$(dirname "$0")/lib.sh"
have npm || skip "buf comes by npm, which is not installed"
buf() { npm exec --yes --package=@bufbuild/buf@1 -- buf "$@"; }
timeout 120 npm exec --yes --package=@bufbuild/buf@1 -- buf --version || skip "buf cannot be fetched"
cd proto
buf lint
