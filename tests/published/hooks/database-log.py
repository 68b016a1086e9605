#!/usr/bin/env python3
# Logs calls into a database of the project.
import json, sqlite3, sys

event = json.load(sys.stdin)
with sqlite3.connect("calls.db") as database:
    database.execute("create table if not exists calls (tool text, at text default current_timestamp)")
    database.execute("insert into calls (tool) values (?)", [event.get("tool_name")])
