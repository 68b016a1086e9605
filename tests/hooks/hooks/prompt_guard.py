#!/usr/bin/env python3
"""Keeps keys out of prompts, which are sent away."""

import json
import re
import sys

KEYS = (r"AKIA[0-9A-Z]{16}", r"ghp_[A-Za-z0-9]{36}", r"-----BEGIN [A-Z ]*PRIVATE KEY-----")

prompt = json.load(sys.stdin).get("prompt", "")
if any(re.search(key, prompt) for key in KEYS):
    print(json.dumps({"decision": "block", "reason": "There is a key in it: take it out."}))
