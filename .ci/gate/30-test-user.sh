#!/usr/bin/env bash
# The README's command for the tests, as an ordinary user: hooks run under the user's uid. Then the tests that need tools.
. "$(dirname "$0")/../lib.sh"
grep -qxF 'cargo test' README.md || fail "the README's command for the tests is another"
start=$SECONDS
build_tests
echo "built in $((SECONDS - start)) s"
files_in_memory
tests_at_once
AS_USER+=(HOOKJAIL_MAY_SKIP="$ROWS_NOT_AS_USER")
as_user cargo test --locked --no-fail-fast
as_user "$(tests_of spec)" --ignored with_tools::
# The documents name only tests that exist.
there=$(while read -r name tests; do "$tests" --list | sed -n "s/: test\$//p" | case $name in lib|spec|hookjail_daemon) cat ;; *) sed "s/^/${name#hookjail_}::/" ;; esac; done <"$CI_WORK/tests" | sort -u)
named=$(grep -ohE '`([a-z0-9_]+::)+[a-z0-9_]+`' docs/specification.md docs/escape-matrix.md docs/reliability.md | tr -d '`' | sort -u)
missing=$(comm -13 <(echo "$there") <(echo "$named") | grep -v '^module::name$' || true)
[ -z "$missing" ] || fail "docs/specification.md, docs/escape-matrix.md or docs/reliability.md names tests that do not exist: $missing"
