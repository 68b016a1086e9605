#!/bin/sh
# A guard that breaks after it has printed what it says where nothing is wrong.
cat >/dev/null
echo '{"continue": true}'
exit 1
