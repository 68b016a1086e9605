#!/bin/sh
# Refuses a shutdown in the form of a JSON decision.
case $(cat) in
  *shutdown*) echo '{"decision": "block", "reason": "the machine stays on"}' ;;
esac
