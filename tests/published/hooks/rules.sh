#!/bin/sh
cat >/dev/null
cat RULES.md
