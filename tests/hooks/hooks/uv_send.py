#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.8"
# dependencies = ["python-dotenv"]
# ///
"""Sends each event to a server that shows them."""

import argparse
import json
import os
import sys
import urllib.request

from dotenv import load_dotenv

load_dotenv()
parser = argparse.ArgumentParser()
parser.add_argument("--app", required=True)
body = json.dumps({"app": parser.parse_args().app, "event": json.load(sys.stdin)}).encode()
server = os.environ.get("EVENTS_SERVER", "http://127.0.0.1:8377/events")
try:
    urllib.request.urlopen(urllib.request.Request(server, body), timeout=5).close()
except OSError as error:
    print(f"not sent: {error}", file=sys.stderr)
