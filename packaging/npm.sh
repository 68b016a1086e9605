#!/bin/sh
# Makes the npm packages: packaging/npm.sh BINDIR TARGET OUTDIR
#
# BINDIR has `hookjail` and `hookjail-run` as built for TARGET. OUTDIR gets hookjail-VERSION.tgz, the client and launchers, which are
# the same for every target, and hookjail-linux-CPU-VERSION.tgz with the programs. Needs Node.js, npm and the npm registry.
set -eu
if [ $# != 3 ]; then
  sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
mkdir -p "$3"
bins=$(realpath "$1") target=$2 out=$(realpath "$3")
root=$(realpath "$(dirname "$0")/..")

fail() {
  echo "packaging/npm.sh: $1" >&2
  exit 1
}

# The number of the processor in an ELF file's header, so that no package is for another one than its programs.
case $target in
  x86_64-unknown-linux-musl) cpu=x64 machine=003e ;;
  aarch64-unknown-linux-musl) cpu=arm64 machine=00b7 ;;
  *) fail "\`$target\` is none of x86_64-unknown-linux-musl, aarch64-unknown-linux-musl" ;;
esac
for program in hookjail hookjail-run; do
  [ -f "$bins/$program" ] || fail "$bins has no $program"
  built_for=$(od -An -tx1 -j18 -N2 "$bins/$program" | awk '{ print $2 $1 }')
  [ "$built_for" = "$machine" ] || fail "$bins/$program is no program for $target"
done

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

client=$stage/client
mkdir "$client"
(cd "$root/clients/typescript" && cp -r .npmrc README.md bin package.json package-lock.json src tsconfig.json "$client")
cp "$root"/LICENSE-* "$client"
(cd "$client" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && node_modules/.bin/tsc)

programs=$stage/programs
mkdir -p "$programs/bin"
cp "$root"/LICENSE-* "$programs"
install -m 755 "$bins/hookjail" "$bins/hookjail-run" "$programs/bin"
echo "The programs of [hookjail](https://github.com/hookjail/hookjail) for Linux on $cpu. Install \`hookjail\`, which takes this package." \
  >"$programs/README.md"

VERSION=$version CPU=$cpu node - "$client/package.json" "$programs/package.json" <<'END'
const { readFileSync, writeFileSync } = require("node:fs");
const [ofClient, ofPrograms] = process.argv.slice(2);
const { VERSION: version, CPU: cpu } = process.env;
const write = (path, value) => writeFileSync(path, `${JSON.stringify(value, undefined, 2)}\n`);
const { devDependencies, scripts, ...client } = JSON.parse(readFileSync(ofClient, "utf8"));
if (client.version !== version) throw new Error(`clients/typescript/package.json has version ${client.version}, Cargo.toml ${version}`);
// Not in the source tree: they are published with the client, and a lock file could not name them before.
const optionalDependencies = { "@hookjail/linux-arm64": version, "@hookjail/linux-x64": version };
write(ofClient, { ...client, optionalDependencies });
const { license, repository } = client;
const description = `The programs of hookjail for Linux on ${cpu}`;
write(ofPrograms, {
  name: `@hookjail/linux-${cpu}`, version, description, license, repository, os: ["linux"], cpu: [cpu], files: ["LICENSE-*", "bin"], publishConfig: { access: "public" },
});
END
for package in "$client" "$programs"; do
  (cd "$package" && npm pack --ignore-scripts --silent --pack-destination "$out")
done
