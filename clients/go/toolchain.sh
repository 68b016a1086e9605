# Go and the modules of go.mod out of Debian 13's packages, in a directory of their own: `toolchain DIR`. Needs neither root nor a
# module proxy, and installs nothing. Returns 77 where the packages cannot be fetched.
#
# Debian's packages have one version of each module. go.mod names public versions; a copy of it in DIR puts Debian's in their place.
# shellcheck shell=sh

toolchain() {
  debian=$1
  mkdir -p "$debian/lists/partial" "$debian/cache/archives/partial" "$debian/state" "$debian/debs"
  archive=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' | head -n 1)
  [ -n "$archive" ] || { echo "apt has no archive of Debian; run apt-get update"; return 77; }
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" >"$debian/sources.list"
  cat >"$debian/apt.conf" <<CONF
Dir::Etc::SourceList "$debian/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$debian/state";
Dir::State::lists "$debian/lists";
Dir::State::status "/dev/null";
Dir::Cache "$debian/cache";
APT::Sandbox::User "";
CONF
  APT_CONFIG=$debian/apt.conf apt-get -qq update || return 77
  (cd "$debian/debs" && APT_CONFIG=$debian/apt.conf apt-get -qq download golang-1.24-go golang-1.24-src golang-google-grpc-dev \
    golang-google-genproto-dev golang-google-protobuf-dev golang-github-golang-protobuf-1-5-dev golang-golang-x-net-dev golang-golang-x-sys-dev golang-golang-x-text-dev) || return 77
  for package in "$debian"/debs/*.deb; do dpkg-deb -x "$package" "$debian"; done

  modules=$debian/usr/share/gocode/src
  PATH=$debian/usr/lib/go-1.24/bin:$PATH
  GOTOOLCHAIN=local GOPROXY=off GOPATH=$debian/go GOFLAGS="-modfile=$debian/go.mod -mod=mod -trimpath"
  unset GOROOT
  export PATH GOTOOLCHAIN GOPROXY GOPATH GOFLAGS
  # This part of genproto is a module of its own since 2023.
  rpc=google.golang.org/genproto/googleapis/rpc
  printf 'module %s\n\ngo 1.19\n' $rpc >"$modules/$rpc/go.mod"
  cp go.mod "$debian/go.mod"
  # Messages in Debian's gRPC are made by Debian's generators: they need a newer Go than gRPC's go.mod has, and an older runtime.
  GOFLAGS='' go mod edit -go 1.21 "$modules/google.golang.org/grpc/go.mod"
  for module in github.com/golang/protobuf golang.org/x/net golang.org/x/sys golang.org/x/text google.golang.org/grpc google.golang.org/protobuf $rpc; do
    GOFLAGS='' go mod edit -replace "$module=$modules/$module" "$debian/go.mod" || return 1
  done
}

# Writes hookjailpb into a directory: `generate DIRECTORY`, after `toolchain`.
generate() {
  go build -o "$debian/bin/" ./internal/generate google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
  "$debian/bin/generate" ../../crates/proto/src/descriptors.bin "$1" "$debian/bin/protoc-gen-go" "$debian/bin/protoc-gen-go-grpc"
}
