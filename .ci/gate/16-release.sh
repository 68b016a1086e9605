#!/usr/bin/env bash
# The installer installs a signed release and refuses a changed one; the packages' metadata name the archives that a release has.
. "$(dirname "$0")/../lib.sh"
have xz || [ "$(id -u)" != 0 ] || { apt_lists; packages xz-utils; }
have xz || skip "needs xz"
belongs_to user
as_user tests/packages/install-test.sh
[ "$(as_user packaging/release.sh --no-such-word 2>&1 | head -n 1)" = "Makes a release in target/release-VERSION: packages, checksums, signature, installer. Publishes nothing." ] ||
  fail "packaging/release.sh does not print its use"
# The tarball step of packaging/build.sh, the installer and cargo-binstall use the same name.
grep -qF 'name=hookjail-$version-${target%%-*}-linux' packaging/build.sh || fail "packaging/build.sh names the archive in another way"
grep -qF 'name=hookjail-$version-$arch-linux' packaging/install.sh || fail "packaging/install.sh names the archive in another way"
grep -qF '/releases/download/v{ version }/hookjail-{ version }-{ target-arch }-linux.tar.xz"' Cargo.toml || fail "cargo-binstall names the archive in another way"
