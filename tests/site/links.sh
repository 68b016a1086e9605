#!/usr/bin/env bash
# Checks every internal link and anchor, in the Markdown as a code host shows it and in the built site. Links to elsewhere are listed
# in SITE/../site-links.txt and not fetched.
# Usage: links.sh LYCHEE SITE
set -euo pipefail
lychee=$1 site=$2
cd "$(dirname "$0")/../.."
# A generated file of another tool has no links that a reader follows.
mapfile -t markdown < <(git ls-files '*.md')
"$lychee" --offline --no-progress --include-fragments -- "${markdown[@]}"
"$lychee" --offline --no-progress --include-fragments --root-dir "$(realpath "$site")" -- "$site"
"$lychee" --dump --include-fragments --scheme http --scheme https -- "${markdown[@]}" | sort -u >"$site-links.txt"
echo "$(wc -l <"$site-links.txt") links to elsewhere, not fetched: $site-links.txt"
