#!/usr/bin/env bash
# Real runtimes with hooks, bare and jailed, against a played model: the model sees the same, and attacks are contained.
# Runtimes are from the npm registry and from given source trees. HOOKJAIL_RUNTIMES=newest: the newest ones, with a report of changes.
. "$(dirname "$0")/../lib.sh"
need_root
/usr/bin/python3 -c 'import ensurepip, venv' || packages python3-venv
build_release
. .ci/runtimes.sh
absent=()

# Writes the pinned commit of the source tree that a variable names to a directory. Prints the reason for a failure.
source_of() { # VARIABLE COMMIT DIRECTORY
  local tree=${!1:-} head
  [ -n "$tree" ] || { echo "$1 names no source tree"; return 1; }
  head=$(git -c safe.directory='*' -C "$tree" rev-parse HEAD 2>/dev/null) || { echo "$1 names \`$tree\`, which is no git tree"; return 1; }
  [ "$head" = "$2" ] || { echo "$1 names a tree at $head, not at $2"; return 1; }
  mkdir -p "$3"
  git -c safe.directory='*' -C "$tree" archive "$2" | tar -x -C "$3" || { echo "$1 names a tree that cannot be read"; return 1; }
}

# The dependencies that its project names, but for those of other places than the package index.
build_reyn() { # SOURCE DIRECTORY
  /usr/bin/python3 -m venv "$2" || return 1
  /usr/bin/python3 -c '
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
every = project["dependencies"] + project["optional-dependencies"]["sandbox-linux"]
print("\n".join(one for one in every if "@" not in one))' "$1/pyproject.toml" >"$2/dependencies" &&
    timeout 600 "$2/bin/pip" install --quiet --requirement "$2/dependencies" &&
    timeout 300 "$2/bin/pip" install --quiet --no-deps "$1"
}

# Its session with a turn of ours, in one file, beside the catalog of models that it reads.
build_loom() { # SOURCE DIRECTORY
  local packages=$1/packages dependencies
  [ -e "$installed/esbuild" ] || return 1
  mapfile -t dependencies < <(jq -r '.dependencies | to_entries[] | "\(.key)@\(.value)"' "$packages/loom/package.json")
  timeout 300 npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$2" "${dependencies[@]}" &&
    "$installed/esbuild/node_modules/.bin/esbuild" tests/runtimes/loom.mjs --log-level=warning --bundle --platform=node \
      --format=esm --packages=external "--alias:@ownware/loom=$packages/loom/src/index.ts" \
      "--alias:profile=$packages/cortex/src/profile" "--outfile=$2/bin/loom.mjs" &&
    cp "$packages/loom/src/provider/models.dev.json" "$2/bin/" && chmod +x "$2/bin/loom.mjs"
}

build_runtime() { # NAME VARIABLE COMMIT
  local source why pinned
  source=$(mktemp -d)
  # With what of ours is built into it.
  pinned="$3 $({ cat tests/runtimes/"$1".* 2>/dev/null || true; } | sha256sum)"
  if ! why=$(source_of "$2" "$3" "$source"); then
    absent+=(--absent "$1=$1: $why"); rm -rf "${installed:?}/$1"
  elif [ "$(cat "$installed/$1/pinned" 2>/dev/null)" != "$pinned" ]; then
    rm -rf "${installed:?}/$1"; mkdir -p "$installed/$1"
    if "build_$1" "$source" "$installed/$1"; then
      echo "$pinned" >"$installed/$1/pinned"
    else
      absent+=(--absent "$1=$1: what $2 names cannot be built, or its dependencies cannot be had"); rm -rf "${installed:?}/$1"
    fi
  fi
  rm -rf "$source"
}

install_pinned
while read -r name package version; do
  case $package in HOOKJAIL_*) build_runtime "$name" "$package" "$version" ;; esac
done <tests/runtimes/versions.txt
chmod -R go+rX "$installed"
[ -e "$installed/node" ] || skip "Node.js cannot be had"
report_changes
apart tests/runtimes/check.py --tools "$tools" "${absent[@]}"
