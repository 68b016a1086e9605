#!/usr/bin/env bash
# The README's command for the tests, as an ordinary user: hooks run under the user's uid. Then the tests that need tools.
. "$(dirname "$0")/../lib.sh"
grep -qxF 'cargo test --all-features' README.md || fail "the README's command for the tests is another"
start=$SECONDS
build_tests
echo "built in $((SECONDS - start)) s"
files_in_memory
tests_at_once
AS_USER+=(HOOKJAIL_MAY_SKIP="$ROWS_NOT_AS_USER")
as_user cargo test --locked --all-features --no-fail-fast
as_user "$(tests_of spec)" --ignored with_tools::
# What starts for each hook holds nothing that only the daemon needs. Names in a program that is not optimised show it; the full run
# measures the size of the release.
for crate in minijinja opentelemetry_proto regex_automata saphyr_parser toml schemars prost_reflect landlock seccompiler; do
  # As the compiler spells a crate in the name of a symbol: its length before it.
  symbol=${#crate}$crate
  nm "$PROGRAM" | grep -F "$symbol" >/dev/null || fail "hookjail has nothing of $crate: the check of hookjail-run would show nothing"
  ! nm "$PROGRAM-run" | grep -F -m 3 "$symbol" || fail "hookjail-run holds $crate (a trait object or a table in its way brings it along)"
done
# The documents name only tests that exist.
there=$(while read -r name tests; do "$tests" --list | sed -n "s/: test\$//p" | case $name in lib|spec) cat ;; *) sed "s/^/${name#hookjail_}::/" ;; esac; done <"$CI_WORK/tests" | sort -u)
named=$(grep -ohE '`([a-z0-9_]+::)+[a-z0-9_]+`' docs/specification.md docs/escape-matrix.md docs/reliability.md | tr -d '`' | sort -u)
missing=$(comm -13 <(echo "$there") <(echo "$named") | grep -v '^module::name$' || true)
[ -z "$missing" ] || fail "docs/specification.md, docs/escape-matrix.md or docs/reliability.md names tests that do not exist: $missing"
