#!/bin/bash
# Has an index made, which takes longer than anybody would wait.
cat >/dev/null
mkdir -p logs
nohup sh -c 'echo $$ >logs/index.pid; sleep 30' >/dev/null 2>&1 &
