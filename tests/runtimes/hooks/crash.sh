#!/bin/sh
# A guard that breaks after it has printed its answer for a harmless call.
cat >/dev/null
echo '{"continue": true}'
exit 1
