#!/bin/bash
# Real managers of git hooks, each in a repository of its own: a commit that passes, one that a hook denies, and a hook that reads a key. The
# same is tried bare first, where the key is read.
#
# git-managers.sh HOOKJAIL WORK, as an ordinary user whose home is WORK/home. Managers are taken from its ~/.local/bin and from
# WORK/node_modules; one that is not there is named.
set -euo pipefail
program=$1 work=$2
export HOME=$work/home XDG_RUNTIME_DIR=$work/run
export PATH=$HOME/.local/bin:$work/node_modules/.bin:/usr/local/bin:/usr/bin:/bin
mkdir -p "$HOME/.ssh" "$XDG_RUNTIME_DIR"
echo 'a secret' >"$HOME/.ssh/id"
git config --global user.name n; git config --global user.email n@example.org
git config --global safe.directory '*'

fail() { echo "FAIL: $manager: $1"; cat "$work/output"; exit 1; }
finish() { if [ -e "$XDG_RUNTIME_DIR/pid" ]; then kill "$(cat "$XDG_RUNTIME_DIR/pid")" 2>/dev/null || :; fi; }
trap finish EXIT
"$program" serve 2>"$work/serve.log" & echo $! >"$XDG_RUNTIME_DIR/pid"

# The hooks of each manager: `! grep` for the word, and a look for the key that decides nothing.
set_up_pre-commit() {
  cat >.pre-commit-config.yaml <<'END'
repos:
- repo: local
  hooks:
  - {id: word, name: word, language: system, entry: "sh -c '! grep -l WORD *.txt'", pass_filenames: false, always_run: true}
  - {id: key, name: key, language: system, entry: "sh -c 'cat ~/.ssh/id || true'", pass_filenames: false, always_run: true, verbose: true}
END
  "$manager" install
}
set_up_prek() { set_up_pre-commit; }
set_up_lefthook() {
  printf 'pre-commit:\n  commands:\n    word:\n      run: "! grep -l WORD *.txt"\n    key:\n      run: "cat ~/.ssh/id || true"\n' >lefthook.yml
  lefthook install
}
set_up_husky() {
  echo '{"name": "x", "version": "1.0.0"}' >package.json
  husky
  printf 'cat ~/.ssh/id || true\n! grep -l WORD *.txt\n' >.husky/pre-commit
}

# Commits a file with a content. Returns git's exit code; $work/output has the output.
commit() { echo "$1" >file.txt; git add -A; git commit -m x >"$work/output" 2>&1; }

for manager in pre-commit prek lefthook husky; do
  command -v "$manager" >/dev/null || { echo "SKIP: $manager is not here"; continue; }
  rm -rf "$work/p"; git init -q "$work/p"; cd "$work/p"
  "set_up_$manager" >"$work/output" 2>&1 || fail "cannot be set up"
  commit one || fail "denies a commit bare"
  grep -q 'a secret' "$work/output" || fail "its hook does not read the key bare"
  "$program" install git --yes >"$work/output" 2>&1 || fail "cannot be confined"
  commit two || fail "denies a commit confined"
  ! grep -q 'a secret' "$work/output" || fail "its hook reads the key confined"
  grep -q 'Permission denied' "$work/output" || fail "its hook does not run confined"
  ! commit WORD || fail "lets the word pass confined"
  git reset -q --hard
  for definition in .pre-commit-config.yaml lefthook.yml .husky/pre-commit; do
    if [ -e $definition ]; then echo '# changed' >>$definition; fi
  done
  ! commit three || fail "runs with a changed definition"
  grep -q DIGEST_MISMATCH "$work/output" || fail "is denied for another reason"
  "$program" install git --uninstall --yes >"$work/output" 2>&1 || fail "cannot be put back"
  commit four || fail "denies a commit that is bare again"
  grep -q 'a secret' "$work/output" || fail "stays confined"
  echo "ok: $manager"
done
