# shellcheck shell=bash
# A home with hooks of the kinds that people publish, and with the tools that they call. Sourced by the tiers 92 and 94.

for command in curl jq; do have $command || packages $command; done
# Of these, a kind is skipped where the program cannot be had.
for command in fish make php sqlite3 tmux zsh; do have $command || packages ${command/php/php-cli} || part_skipped "kinds that need $command"; done
/usr/bin/python3 -c 'import ensurepip, venv' || packages python3-venv
build_release
work=$CI_WORK/hooks

# Installs the pinned versions at their usual places: Node.js and Bun as nvm does, uv and ruff in ~/.local/bin, the rest in the project.
# uv's cache gets the dependencies of scripts.
install_tools() {
  local home=$work/home project=$work/home/p node index name version npm=() npm_global=() pip=() scripts=()
  cmp --quiet tests/hooks/versions.txt "$work/pinned" && return
  rm -rf "$work"; mkdir -p "$project"
  while read -r index name version; do
    case $index:$name in
      npm:node) node=$home/.nvm/versions/node/v$version; npm_global=("node@$version") ;;
      npm:npm | npm:bun) npm_global+=("$name@$version") ;;
      npm:*) npm+=("$name@$version") ;;
      pip:*) pip+=("$name==$version") ;;
      uv:*) scripts+=(--with "$name==$version") ;;
    esac
  done <tests/hooks/versions.txt
  # Called where a failure is looked at, so nothing else ends it.
  timeout 300 npm install --silent --no-audit --no-fund --global --prefix "$node" "${npm_global[@]}" &&
    timeout 300 npm install --silent --no-audit --no-fund --prefix "$project" "${npm[@]}" &&
    /usr/bin/python3 -m venv "$project/.venv" &&
    timeout 300 "$project/.venv/bin/pip" --quiet --disable-pip-version-check install "${pip[@]}" &&
    mkdir -p "$home/.local/bin" &&
    cp "$project/.venv/bin/uv" "$project/.venv/bin/ruff" "$home/.local/bin/" &&
    (cd / && UV_CACHE_DIR=$home/.cache/uv timeout 300 "$home/.local/bin/uv" --quiet run --no-project --python /usr/bin/python3 "${scripts[@]}" true) &&
    chown -R "$CI_USER:$CI_USER" "$home" &&
    cp tests/hooks/versions.txt "$work/pinned"
}

install_tools || skip "the hooks' tools cannot be had"

# The command that runs around them.
AROUND=()
# The only network is a loopback of its own. Directories that are emptied for each hook are in memory. Root owns the program that
# shows notices.
try_hooks() { # [ARGUMENT...]
  # shellcheck disable=SC2016 # for the other shell
  "${AROUND[@]}" unshare --net --mount -- bash -ec '
    work=$1 user=$2; shift 2
    for place in run tmp .local/state; do
      mkdir -p "$work/home/$place"; mount -t tmpfs -o "mode=700,uid=$(id -u "$user"),gid=$(id -g "$user")" hookjail-ci "$work/home/$place"
    done
    mkdir -p "$work/root"; install -o root -m 755 tests/hooks/root/notify-send "$work/root/"
    mount -t overlay -o "lowerdir=$work/root:/usr/local/bin" hookjail-ci /usr/local/bin
    exec python3 tests/hooks/check.py --user "$user" --work "$work" "$@"' check "$work" "$CI_USER" --hookjail "$RELEASE" "$@"
}
