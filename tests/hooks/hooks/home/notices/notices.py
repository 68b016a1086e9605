#!/usr/bin/env python3
"""Keeps each prompt in a database beside this file, and a log."""

import json
import pathlib
import sqlite3
import sys

HERE = pathlib.Path(__file__).resolve().parent

event = json.load(sys.stdin)
with sqlite3.connect(HERE / "notices.db") as database:
    database.execute("CREATE TABLE IF NOT EXISTS prompts (session TEXT, prompt TEXT, made TEXT DEFAULT CURRENT_TIMESTAMP)")
    database.execute("INSERT INTO prompts (session, prompt) VALUES (?, ?)", (event["session_id"], event["prompt"]))
    number = database.execute("SELECT count(*) FROM prompts").fetchone()[0]
with open(HERE / "notices.log", "a", encoding="utf-8") as log:
    print(event["prompt"], file=log)
print(f"{number} prompts")
