#!/usr/bin/env bash
# The site of the documents: the build, every link and anchor, and every page in a browser, narrow and wide, light and dark.
. "$(dirname "$0")/../lib.sh"
have chromium || { [ "$(id -u)" = 0 ] && apt-get -qq update && packages chromium fonts-dejavu-core; } || skip "needs chromium"
belongs_to user
cat docs/site/requirements.txt tests/site/requirements.txt >"$CI_WORK/site-requirements.txt"
python_with "$CI_WORK/site-requirements.txt" || skip "Python packages cannot be had"
as_user env PYTHON="$PYTHON" docs/site/build.sh target/site
as_user tests/site/links.sh "$(dirname "$PYTHON")/lychee" target/site
as_user "$PYTHON" tests/site/pages.py target/site target/site-shots
