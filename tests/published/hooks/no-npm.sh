#!/bin/sh
# Refuses npm where the project has pnpm.
if grep -Eq '\"command\": *\"npm (install|i|add)\b'; then
  echo "this project has pnpm" >&2
  exit 2
fi
