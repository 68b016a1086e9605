#!/bin/sh
case $(cat) in
  *shutdown*) echo '{"decision": "block", "reason": "the machine stays on"}' ;;
esac
