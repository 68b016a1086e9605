#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.8"
# dependencies = ["python-dotenv"]
# ///
"""Tells the agent its name, as the project's .env has it."""

import os
import sys

from dotenv import load_dotenv

sys.stdin.read()
load_dotenv(".env")
print(f"You are {os.environ.get('AGENT_NAME', 'nobody')}.")
