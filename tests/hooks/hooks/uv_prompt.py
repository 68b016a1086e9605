#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.8"
# dependencies = ["python-dotenv"]
# ///
"""Gives the agent its name, from the project's .env."""

import os
import sys

from dotenv import load_dotenv

sys.stdin.read()
load_dotenv(".env")
print(f"You are {os.environ.get('AGENT_NAME', 'nobody')}.")
