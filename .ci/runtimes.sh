# shellcheck shell=bash
# Real runtimes of the npm registry, by name: as tests/runtimes/versions.txt pins them, or with HOOKJAIL_RUNTIMES=newest the
# newest ones, beside a report of what changed. Sourced by the tiers 90 and 91.

installed=$CI_WORK/runtimes
case ${HOOKJAIL_RUNTIMES:-pinned} in
  pinned) tools=$installed ;;
  newest) tools=$CI_WORK/runtimes-newest ;;
  *) fail "HOOKJAIL_RUNTIMES is \`$HOOKJAIL_RUNTIMES\`; it can be pinned or newest" ;;
esac

# That version, or none at all.
install_runtime() { # DIRECTORY PACKAGE VERSION
  [ "$(cat "$1/pinned" 2>/dev/null)" != "$2@$3" ] || return 0
  rm -rf "${1:?}"; mkdir -p "$1"
  timeout 300 npm install --silent --no-audit --no-fund --prefix "$1" "$2@$3" && echo "$2@$3" >"$1/pinned" && return 0
  rm -rf "${1:?}"; echo "$2@$3 cannot be installed"
}

install_pinned() {
  local name package version
  while read -r name package version; do
    case $package in HOOKJAIL_*) ;; *) install_runtime "$installed/$name" "$package" "$version" ;; esac
  done <tests/runtimes/versions.txt
}

# Installs the newest versions of the runtimes that hooks are tried with; all else stays pinned.
install_newest() {
  local name package version newest
  names=(); mkdir -p "$tools"
  while read -r name package version; do
    [ -e "$installed/$name" ] || continue
    newest=$version
    case $name in
      esbuild | loom | node | reyn) ;;
      *) names+=("$name"); newest=$(timeout 60 npm view "$package" version) || fail "the registry names no newest version of $package" ;;
    esac
    [ "$newest" != "$version" ] || { rm -rf "${tools:?}/$name"; ln -s "$installed/$name" "$tools/$name"; continue; }
    [ ! -L "$tools/$name" ] || rm "$tools/$name"
    install_runtime "$tools/$name" "$package" "$newest"
    [ -e "$tools/$name" ] || fail "$package@$newest cannot be had"
  done <tests/runtimes/versions.txt
}

# The only network is a loopback of its own: servers that a runtime or a hook would call are missing.
apart() { # SCRIPT OPTION…
  unshare --net -- python3 "$1" --hookjail "$RELEASE" --user "$CI_USER" --work "$CI_WORK/turns" "${@:2}"
}

# Both tiers print this report, which is made once for each pair of versions.
report_changes() {
  local report
  [ "$tools" != "$installed" ] || return 0
  install_newest
  chmod -R go+rX "$tools"
  printf '\n== what changed since the pinned versions\n'
  report=$CI_WORK/changes-$(cat "$installed"/*/pinned "$tools"/*/pinned tests/runtimes/*.py | sha256sum | cut -c 1-16)
  if [ -e "$report" ]; then cat "$report"; return; fi
  apart tests/runtimes/changes.py --pinned "$installed" --newest "$tools" "${names[@]}" | tee "$report.new"
  mv "$report.new" "$report"
}
