#!/bin/sh
# Checks the Go client for real: generated code, formatting, vet, and the tests against a daemon and private servers.
#
# $HOOKJAIL names a built hookjail. Go and the libraries are Debian 13's, fetched into a temporary directory; nothing is installed. Exits 77,
# with the reason, where they cannot be fetched; anything else that is missing or wrong is a failure.
set -eu
cd "$(dirname "$0")"
. ./toolchain.sh
HOOKJAIL=$(realpath "${HOOKJAIL:?names no built hookjail}")
export HOOKJAIL

fail() { echo "FAIL: $1" >&2; exit 1; }

work=$(mktemp -d)
# The ordinary user whose example runs looks for nothing in here, but root's hooks go through it.
chmod 755 "$work"
finish() { chmod -R u+w "$work"; rm -rf "$work"; }
trap finish EXIT
trap 'exit 1' INT TERM

code=0; toolchain "$work/debian" >"$work/log" 2>&1 || code=$?
if [ $code != 0 ]; then
  cat "$work/log" >&2
  [ $code = 77 ] || fail "Go cannot be set up"
  echo "SKIP: Go and its libraries cannot be fetched from Debian's archive"
  exit 77
fi
go version

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || fail "gofmt would change: $unformatted"
generate "$work/fresh"
diff -r "$work/fresh/hookjailpb" hookjailpb || fail "stale: clients/go/generate.sh writes hookjailpb anew"
go vet ./...
GOOS=darwin go vet .

# The example's module: this one, and the client as it is here.
client=$(pwd) example=github.com/hookjail/hookjail/examples/docker-agent
cp "$work/debian/go.mod" "$work/debian/example.mod"
GOFLAGS='' go mod edit -module $example -require github.com/hookjail/hookjail/clients/go@v0.1.0 \
  -replace "github.com/hookjail/hookjail/clients/go=$client" "$work/debian/example.mod"
in_example() { (cd ../../examples/docker-agent && GOFLAGS="-modfile=$work/debian/example.mod -mod=mod -trimpath" "$@"); }
unformatted=$(in_example gofmt -l .)
[ -z "$unformatted" ] || fail "gofmt would change: $unformatted"
in_example go vet ./...

code=0
TMPDIR=$work go test -count=1 -v ./... >"$work/tests" 2>&1 || code=$?
TMPDIR=$work in_example go test -count=1 -v ./... >>"$work/tests" 2>&1 || code=$?
grep -E '^ *(--- |FAIL|ok )|_test\.go:' "$work/tests" || :
count() { grep -cE "^ *--- $1: " "$work/tests" || :; }
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
if [ $code != 0 ]; then cat "$work/tests" >&2; fail "go test"; fi
[ "$(count SKIP)" = 0 ] || fail "tests were skipped"
