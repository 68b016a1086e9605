#!/bin/sh
# Logs that a session began.
session=$(sed -n 's/.*"session_id": *"\([^"]*\)".*/\1/p')
test -n "$session" && echo "begun" >>sessions.log
