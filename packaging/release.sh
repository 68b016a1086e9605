#!/usr/bin/env bash
# Makes a release in target/release-VERSION: packages, checksums, signature, installer. Publishes nothing.
#   packaging/release.sh [--dry-run] [--built]
# --dry-run: from any commit, signed by a key made for this run alone, and installed once from what was made. --built: takes
# target/packages as it is. Otherwise HEAD must be the tag vVERSION, CHANGELOG.md must have a date for it, and HOOKJAIL_RELEASE_KEY
# must name the private key whose public half packaging/allowed_signers has. Needs what packaging/build.sh needs, and ssh-keygen.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "FAIL: $*" >&2; exit 1; }
git() { command git -c safe.directory='*' "$@"; }

dry=0 built=0
for word; do
  case $word in
    --dry-run) dry=1 ;;
    --built) built=1 ;;
    *) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
  esac
done
version=$(cargo metadata --locked --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "hookjail").version')
repository=$(cargo metadata --locked --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "hookjail").repository')
out=$PWD/target/release-$version
identity=releases@hookjail namespace=hookjail-release
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

lacking=()
tags=$(git tag --points-at HEAD)
grep -qx "v$version" <<<"$tags" || lacking+=("HEAD is not the tag v$version")
grep -qE "^## \\[$version\\] - [0-9]{4}-[0-9]{2}-[0-9]{2}" CHANGELOG.md || lacking+=("CHANGELOG.md has no date for $version")
key=${HOOKJAIL_RELEASE_KEY-}
[ -n "$key" ] || lacking+=("HOOKJAIL_RELEASE_KEY names no key")
grep -q "^$identity " packaging/allowed_signers || lacking+=("packaging/allowed_signers has no key")
if [ $dry = 0 ]; then
  [ ${#lacking[@]} = 0 ] || { printf '  %s\n' "${lacking[@]}" >&2; fail "no release; see the lines above, or use --dry-run"; }
  signers=$(grep "^$identity " packaging/allowed_signers)
else
  key=$work/key
  ssh-keygen -q -t ed25519 -N '' -C 'dry run, not a release' -f "$key"
  signers="$identity namespaces=\"$namespace\" $(cut -d ' ' -f 1,2 "$key.pub")"
fi

[ $built = 1 ] || packaging/build.sh
[ -s target/packages/SHA256SUMS ] || fail "target/packages has no packages; leave out --built"
rm -rf "$out"; mkdir -p "$out"
cp target/packages/* "$out/"

# The installer has the version, the page and the key of its release in it.
installer() { # PAGE
  python3 - "$version" "$1" "$signers" <<'PYTHON'
import shlex, sys
text = open("packaging/install.sh").read()
for name, value in zip(("version", "page", "signers"), sys.argv[1:]):
    assert text.count(f"\n{name}=''\n") == 1, name
    text = text.replace(f"\n{name}=''\n", f"\n{name}={shlex.quote(value)}\n")
sys.stdout.write(text)
PYTHON
}
installer "$repository/releases/download" >"$out/install.sh"
chmod 755 "$out/install.sh"
(cd "$out" && rm -f SHA256SUMS && find . -maxdepth 1 -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
ssh-keygen -q -Y sign -f "$key" -n "$namespace" "$out/SHA256SUMS"

echo "== installed from what was made"
"$out/install.sh" --from "$out" --to "$work/installed"
mkdir "$work/changed"; cp "$out"/SHA256SUMS* "$out/hookjail-$version-$(uname -m)-linux.tar.xz" "$work/changed/"
printf x >>"$work/changed/hookjail-$version-$(uname -m)-linux.tar.xz"
! "$out/install.sh" --from "$work/changed" --to "$work/refused" 2>"$work/why" || fail "a changed archive was installed"
grep -q 'another checksum' "$work/why" || { cat "$work/why" >&2; fail "a changed archive was refused for another reason"; }

# The links of the packages' metadata lead to a file of the release.
links=$(cargo metadata --locked --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "hookjail").metadata.binstall["pkg-url"]')
for arch in x86_64 aarch64; do
  link=${links//'{ repo }'/$repository} link=${link//'{ version }'/$version} link=${link//'{ target-arch }'/$arch}
  [ -e "$out/${link##*/}" ] || echo "PART SKIPPED: $arch: not built, so that $link would lead nowhere"
done

printf '\n== files of v%s\n' "$version"
while read -r sum file; do printf '%10d  %.12s…  %s\n' "$(stat -c %s "$out/$file")" "$sum" "$file"; done <"$out/SHA256SUMS"
printf '\n== names in registries\n'
packaging/names.sh || fail "a name is taken; choose another before publishing"
printf '\n== not run here\n'
cat <<'TEXT'
  macOS: the tests of the hosted job; no program is in the release
  aarch64: on hardware; tier 87 starts the programs in an emulator
  publishing: the hosted workflow uploads to a draft for the tag
TEXT
if [ $dry = 1 ]; then
  printf '\n== a release still needs\n'
  [ ${#lacking[@]} = 0 ] || printf '  %s\n' "${lacking[@]}"
  printf '\nDry run: signed by a key of this run alone, in %s\n' "${out#"$PWD"/}"
else
  printf '\nSigned, in %s; push the tag, then upload these files to its draft\n' "${out#"$PWD"/}"
fi
