#!/usr/bin/env bash
# Interpreters and tools that hooks call, each bare and under `develop`; clients that connect by name.
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
