#!/bin/sh
# A reyn `shell_push` hook: reads the event, decides whether the agent gets a message, prints a push directive.
# Shell built-ins only, so it runs under `strict`, where no new process can be started.
read -r event
case $event in
  *'"user_text":'*tests*)
    printf '{"message": "The turn was about tests: run them once more before you stop.", "wake": true, "push_when": true}\n' ;;
  *)
    printf '{"message": "Nothing to add.", "wake": false, "push_when": false}\n' ;;
esac
