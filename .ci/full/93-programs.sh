#!/usr/bin/env bash
# Interpreters and tools that hooks call, each bare and under `develop`; clients that connect by name; managers of git hooks.
. "$(dirname "$0")/../lib.sh"
need_root
# Small ones are installed; others are used where they are there.
small=(bc ccache dc ed expect fd-find file fish gawk inotify-tools jq ksh93u+m lua5.4 m4 mksh ninja-build parallel php-cli ripgrep rsync ruby shellcheck socat
  sqlite3 tcl tini tmux unzip xsltproc xxd yash zip zsh)
{ apt_lists && packages "${small[@]}"; } || part_skipped "programs of Debian's that are not here"
build_release
# No other network than a loopback of its own.
unshare --net -- python3 tests/programs/check.py --hookjail "$RELEASE" --user "$CI_USER" --work "$CI_WORK/programs"
unshare --net -- python3 tests/programs/clients.py --hookjail "$RELEASE" --user "$CI_USER" --work "$CI_WORK/programs"

# Managers of git hooks, where people have them: pipx's directories and the project's packages.
managers=$CI_WORK/managers
install_managers() {
  local venv=$managers/home/.local/share/pipx/venvs/managers versions='pre-commit==4.7.0 prek==0.5.11 lefthook==2.2.2 husky@9.1.7' name
  [ "$(cat "$managers/pinned" 2>/dev/null)" != "$versions" ] || return 0
  { have npm && /usr/bin/python3 -c 'import ensurepip, venv'; } || packages nodejs npm python3-venv || return 1
  rm -rf "${managers:?}"; mkdir -p "$managers/home/.local/bin"
  /usr/bin/python3 -m venv "$venv" || return 1
  for name in $versions; do
    case $name in
      *@*) timeout 300 npm install --silent --no-audit --no-fund --prefix "$managers" "$name" || return 1 ;;
      *) timeout 300 "$venv/bin/pip" --quiet --disable-pip-version-check install "$name" && ln -s "$venv/bin/${name%%=*}" "$managers/home/.local/bin/" || return 1 ;;
    esac
  done
  chown -R "$CI_USER:$CI_USER" "$managers" && echo "$versions" >"$managers/pinned"
}
if install_managers; then
  unshare --net -- "${AS_USER[@]}" tests/programs/git-managers.sh "$RELEASE" "$managers"
else
  part_skipped "managers of git hooks, which cannot be had"
fi
