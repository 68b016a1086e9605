#!/usr/bin/env bash
# Makes an image with the static programs and nothing else, as an archive in the OCI layout, of the same bytes each time.
#   build.sh OUTPUT.tar ARCHITECTURE=DIRECTORY-OF-PROGRAMS...     architectures as OCI names them: amd64, arm64
# `version`, `repository` and SOURCE_DATE_EPOCH are in the environment, from packaging/build.sh.
# A layout is four kinds of JSON around a tar: docs/packages.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=$1; shift
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$work/layout/blobs/sha256"
created=$(date --utc --date "@$SOURCE_DATE_EPOCH" +%FT%TZ)
archive() { tar --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner "$@"; }

# Puts stdin among the blobs, and prints what refers to it.
blob() { # MEDIA-TYPE
  local digest
  cat >"$work/blob"
  digest=$(sha256sum "$work/blob" | cut -d ' ' -f 1)
  jq -cn --arg type "$1" --arg digest "sha256:$digest" --argjson size "$(stat -c %s "$work/blob")" '{mediaType: $type, digest: $digest, size: $size}'
  mv "$work/blob" "$work/layout/blobs/sha256/$digest"
}

# A root without a system: the directories that the shipped profiles grant, and those of the daemon's own.
root() { # DIRECTORY-OF-PROGRAMS
  local root=$work/root
  rm -rf "$root"
  install -d -m 755 "$root"/{bin,dev,etc/hookjail,home/hookjail,lib,proc,run/hookjail,usr/bin,var/lib/hookjail}
  install -d -m 1777 "$root/tmp"
  install -m 755 "$1/hookjail" "$1/hookjail-run" "$root/usr/bin/"
  install -m 444 "$here/hookjail.toml" "$root/etc/hookjail/"
  printf 'root:x:0:0:root:/:/sbin/nologin\nhookjail:x:65532:65532:hookjail:/home/hookjail:/sbin/nologin\n' >"$root/etc/passwd"
  printf 'root:x:0:\nhookjail:x:65532:\n' >"$root/etc/group"
  chmod 644 "$root"/etc/{passwd,group}
  # Two owners, whichever user builds the image. A daemon takes no configuration that belongs to another user.
  local own=(./etc/hookjail/hookjail.toml ./home/hookjail ./run/hookjail ./var/lib/hookjail)
  archive --owner=0 --group=0 --directory "$root" "${own[@]/#/--exclude=}" -cf "$work/layer" .
  archive --owner=65532 --group=65532 --directory "$root" -rf "$work/layer" "${own[@]}"
}

manifests=
for pair; do
  architecture=${pair%%=*}
  root "${pair#*=}"
  uncompressed=sha256:$(sha256sum "$work/layer" | cut -d ' ' -f 1)
  layer=$(zstd -q -19 -c "$work/layer" | blob application/vnd.oci.image.layer.v1.tar+zstd)
  config=$(jq -cn --arg architecture "$architecture" --arg created "$created" --arg layer "$uncompressed" --arg version "$version" --arg url "$repository" '{
    architecture: $architecture, os: "linux", created: $created,
    config: {
      User: "65532:65532",
      Env: ["PATH=/usr/bin:/bin", "HOME=/home/hookjail"],
      Entrypoint: ["/usr/bin/hookjail", "--config", "/etc/hookjail/hookjail.toml"],
      Cmd: ["serve"],
      Volumes: {"/run/hookjail": {}, "/var/lib/hookjail": {}},
      Labels: {
        "org.opencontainers.image.title": "hookjail",
        "org.opencontainers.image.version": $version,
        "org.opencontainers.image.source": $url,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0"
      }
    },
    rootfs: {type: "layers", diff_ids: [$layer]},
    history: [{created: $created, created_by: "packaging/image/build.sh"}]
  }' | blob application/vnd.oci.image.config.v1+json)
  manifest=$(jq -cn --argjson config "$config" --argjson layer "$layer" \
    '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: [$layer]}' |
    blob application/vnd.oci.image.manifest.v1+json | jq -c --arg architecture "$architecture" '.platform = {architecture: $architecture, os: "linux"}')
  manifests+=$manifest$'\n'
done
index=$(jq -cs '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .}' <<<"$manifests" |
  blob application/vnd.oci.image.index.v1+json)
jq -cn --argjson index "$index" --arg name "hookjail:$version" '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
  manifests: [$index + {annotations: {"org.opencontainers.image.ref.name": $name}}]}' >"$work/layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/layout/oci-layout"
chmod -R u=rwX,go=rX "$work/layout"
archive --owner=0 --group=0 --directory "$work/layout" -cf "$output" blobs index.json oci-layout
