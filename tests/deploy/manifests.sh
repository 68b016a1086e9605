#!/usr/bin/env bash
# deploy/kubernetes against the published schemas, and the configurations in it against this program: manifests.sh PYTHON
# HOOKJAIL names the program.
set -euo pipefail
python=${1:?the Python with the packages of requirements.txt}
cd "$(dirname "$0")/../.."
for version in 1.29 1.37; do
  "$python" -m kubernetes_validate --strict --no-warn --kubernetes-version "$version" deploy/kubernetes/*.yaml
done
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
"$python" - "$work" deploy/kubernetes/*.yaml <<'PY'
import pathlib, sys, yaml
work, *files = sys.argv[1:]
count = 0
for file in files:
    for document in yaml.safe_load_all(open(file)):
        if document["kind"] == "ConfigMap":
            for name, text in document["data"].items():
                pathlib.Path(work, f"{document['metadata']['name']}.toml").write_text(text)
                count += 1
assert count == len(files), f"{count} configurations in {len(files)} files"
PY
for config in "$work"/*.toml; do
  chmod 600 "$config"
  "$HOOKJAIL" --config "$config" config show >"$work/shown"
  grep '^server.socket  *"\?/run/hookjail/hookjail.sock' "$work/shown"
done
# The control: a key that is not there is an error.
echo 'nonsense = 1' >>"$work/hookjail-node.toml"
if "$HOOKJAIL" --config "$work/hookjail-node.toml" config show 2>/dev/null; then echo 'a wrong key is taken' >&2; exit 1; fi
echo 'manifests: all held'
