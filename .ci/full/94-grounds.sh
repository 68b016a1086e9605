#!/usr/bin/env bash
# The same hooks where no namespace can be made, under the profile that `install` names there. With namespaces: 92; as root: 32.
. "$(dirname "$0")/../lib.sh"
need_root
. .ci/hooks.sh
AROUND=(tests/testenv/nested-userns.sh)
try_hooks --without-namespaces
