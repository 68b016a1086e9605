#!/usr/bin/env bash
# Builds the site of the documents into a directory, by default target/site. PYTHON names a Python that has what
# docs/site/requirements.txt lists; without it one is made in target/site-python. Fails at a broken link to a document or heading.
set -euo pipefail
cd "$(dirname "$0")/../.."
site=${1:-target/site}
if [ -z "${PYTHON:-}" ]; then
  PYTHON=target/site-python/bin/python
  if ! cmp -s docs/site/requirements.txt target/site-python/requirements.txt; then
    rm -rf target/site-python
    python3 -m venv target/site-python
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --requirement docs/site/requirements.txt
    cp docs/site/requirements.txt target/site-python/
  fi
fi
rm -rf "$site"
"$PYTHON" -m sphinx --quiet --builder html --fresh-env --jobs auto --fail-on-warning --doctree-dir "$site/.doctrees" --conf-dir docs/site . "$site"
rm -rf "$site/.doctrees"
echo "$site/index.html"
