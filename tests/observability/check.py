#!/usr/bin/env python3
"""Has a real Prometheus scrape a live daemon, and evaluates there what the dashboard and the alerts ask for.

check.py HOOKJAIL PROMETHEUS PROMTOOL, all programs. Needs no network but loopback, and no root.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPLOYED = ROOT / "deploy/prometheus"
DASHBOARDS = sorted((ROOT / "deploy/grafana").glob("*.json"))
RUNBOOK = "docs/operations.md"
# Until something is there that takes as long as it takes.
PATIENCE = 60


def fail(text):
    sys.exit(f"FAIL: {text}")


def until(what, holds, log=None):
    """Returns the first true value of `holds`."""
    give_up = time.monotonic() + PATIENCE
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > give_up:
            said = Path(log.name).read_text() if log else ""
            fail(f"{what} takes longer than {PATIENCE} s\n{said}")
        time.sleep(0.2)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Daemon:
    """A daemon with a state of its own, and the command line that belongs to it."""

    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.config = directory / "hookjail.toml"
        (directory / "profiles").mkdir()
        text = "\n".join(
            [
                '[metrics]\nlisten = "127.0.0.1:0"',
                f'[server]\nsocket = "{directory}/sock"',
                f'[paths]\nstate = "{directory}/state"\nruntime = "{directory}/run"',
                f'[profiles]\ndirs = ["{directory}/profiles"]',
                "",
            ]
        )
        self.config.write_text(text)
        self.config.chmod(0o600)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("HOOKJAIL_")},
            "HOME": str(directory),
            "HOOKJAIL_ACCEPT_HOOKS": "1",
        }
        self.log = open(directory / "log", "w")
        words = [program, "serve", "--config", self.config]
        self.process = subprocess.Popen(words, env=self.environment, stderr=self.log)
        until("the daemon's start", lambda: self.run("status").returncode == 0, self.log)
        status = json.loads(self.run("status", "--json").stdout)
        self.metrics = status["metrics"]

    def run(self, *words):
        words = [self.program, *words[:1], "--config", self.config, *words[1:]]
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )

    def hook(self, *words):
        return self.run("run", "--connect", f"{self.directory}/sock", *words)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        # One that starts answers that it is not available.
        return "" if error.code == 503 else error.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return ""


class Prometheus:
    """A Prometheus with the rules and the scrape configuration of the tree, at another target and more often."""

    def __init__(self, program, directory, target):
        for file in DEPLOYED.iterdir():
            shutil.copy(file, directory)
        config = directory / "prometheus.yml"
        text = config.read_text()
        if text.count("127.0.0.1:9464") != 1 or text.count(": 15s") != 2:
            fail(f"{config.name} has another target or other intervals")
        text = text.replace("127.0.0.1:9464", target).replace(": 15s", ": 1s")
        config.write_text(text)
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        self.log = open(directory / "prometheus.log", "w")
        words = [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address={address}",
        ]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        until("Prometheus's start", lambda: fetch(f"{self.url}/-/ready"), self.log)

    def api(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        # A busy one answers late.
        answer = until("Prometheus's answer", lambda: fetch(f"{self.url}/api/v1/{path}?{query}"), self.log)
        return json.loads(answer)

    def query(self, expression):
        """Returns the answer to an expression: labels and values."""
        answer = self.api("query", query=expression)
        if answer["status"] != "success":
            fail(f"{expression}: {answer['error']}")
        result = answer["data"]["result"]
        return {json.dumps(it["metric"], sort_keys=True): float(it["value"][1]) for it in result}

    def value(self, expression):
        values = list(self.query(expression).values())
        return values[0] if len(values) == 1 else None

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


def families(text):
    """Returns the names that samples of a text in Prometheus's format may have, and their labels."""
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        parts = ["_bucket", "_count", "_sum"] if kind == "histogram" else [""]
        names.update(name + part for part in parts)
    labels = set(re.findall(r'[{,](\w+)="', text))
    # Reasons of refusals are a closed set, all of which are there from the start.
    labels.update(re.findall(r'[{,](reason="\w+")', text))
    return names, labels


def unknown(expression, names, labels):
    """Returns the metrics, labels and reasons of an expression that no scrape and no recording rule has."""
    metrics = set(re.findall(r"[\w:]*\bhookjail_[\w:]+", expression)) - names
    used = set(re.findall(r'[{,](\w+)(?:=|!=|=~|!~)"', expression))
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        used.update(it.strip() for it in group.split(","))
    for group in re.findall(r'[{,]reason=~?"([^"]*)"', expression):
        used.update(f'reason="{it}"' for it in group.split("|"))
    return metrics | (used - labels - {"instance", "job"})


def plain(expression):
    """Returns an expression with Grafana's variables replaced."""
    for name, value in {"$__rate_interval": "1m", "$__range": "1h", "$job": ".+", "$instance": ".+"}.items():
        expression = expression.replace(name, value)
    if "$" in expression:
        fail(f"a variable of {expression} is not known")
    return expression


def dashboard(model):
    """Returns the expressions of a dashboard's panels and variables."""
    expressions, ids = [], set()
    for panel in model["panels"]:
        place = panel["gridPos"]
        if panel["id"] in ids or place["x"] + place["w"] > 24 or not panel["title"]:
            fail(f"panel {panel['id']} of the dashboard: id, place or title")
        ids.add(panel["id"])
        targets = panel.get("targets", [])
        if (panel["type"] == "row") != (not targets):
            fail(f"panel {panel['title']!r} has no query")
        for target in targets:
            expressions.append((panel["title"], plain(target["expr"])))
    for variable in model["templating"]["list"]:
        # `up` is a metric of every job.
        if variable["name"] == "job" and "allValue" in variable:
            fail("all jobs of the dashboard are more than those of hookjail")
        if variable["type"] == "query":
            inner = re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"])
            expressions.append((variable["name"], plain(inner[1])))
    return expressions


def dashboards():
    """Returns the expressions of all dashboards, and those of the table of hosts by its columns."""
    models = [json.loads(path.read_text()) for path in DASHBOARDS]
    if len({model["uid"] for model in models}) != len(models):
        fail("two dashboards have one uid")
    tables = [panel for model in models for panel in model["panels"] if panel["type"] == "table"]
    if len(tables) != 1:
        fail(f"{len(tables)} tables of hosts")
    [organized] = [it["options"] for it in tables[0]["transformations"] if it["id"] == "organize"]
    names = organized["renameByName"]
    columns = {}
    for target in tables[0]["targets"]:
        value = f"Value #{target['refId']}"
        # A hidden value is there for its label.
        name = names["version"] if value in organized["excludeByName"] else names[value]
        columns[name] = plain(target["expr"]).replace('job=~".+"', 'job="hookjail"')
    return [it for model in models for it in dashboard(model)], columns


def paragraphs():
    """Returns the text below each heading of the runbook, by the heading's anchor."""
    # A comment of a shell is no heading.
    text = re.sub(r"^```.*?^```$", "", (ROOT / RUNBOOK).read_text(), flags=re.M | re.S)
    parts = re.split(r"^#+ (.+)$", text, flags=re.M)[1:]
    anchors = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in parts[::2]]
    return dict(zip(anchors, map(str.strip, parts[1::2])))


def unexplained(alert, explained):
    """Returns the fault of an alert's link to its paragraph."""
    repository = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
    link = alert["annotations"].get("runbook_url", "")
    page, _, anchor = link.partition("#")
    if page != f"{repository}/blob/main/{RUNBOOK}" or anchor != alert["name"].lower():
        return f"runbook_url is {link!r}"
    paragraph = explained.get(anchor, "")
    if not paragraph or "\n\n" in paragraph:
        return f"{RUNBOOK} has no heading {anchor} with one paragraph"
    if not re.search(r"`(hookjail|journalctl|systemctl) [^`]+`", paragraph):
        return f"the paragraph {anchor} names no command"
    return None


def runbook(daemon, alerts):
    """Checks each alert's link, and that hookjail has the commands that alerts and paragraphs name."""
    explained = paragraphs()
    for alert in alerts:
        why = unexplained(alert, explained)
        if why:
            fail(f"{alert['name']}: {why}")
    nonsense = {**alerts[0], "name": "Nonsense"}
    for alert in [nonsense, {**nonsense, "annotations": {"runbook_url": alerts[0]["annotations"]["runbook_url"] + "nonsense"}}]:
        if not unexplained(alert, explained):
            fail("a link to another paragraph is taken")
    if not unexplained(alerts[0], {**explained, alerts[0]["name"].lower(): ""}):
        fail("a heading that is not there is not missed")
    tests = (ROOT / "tests/observability/rules.test.yml").read_text()
    texts = []
    for alert in alerts:
        if not re.search(rf"\b{alert['name']}\b", tests):
            fail(f"no test of rules has {alert['name']} fire")
        texts += [alert["annotations"]["description"], explained[alert["name"].lower()]]
    commands = sorted({" ".join(it.split()) for text in texts for it in re.findall(r"`hookjail( [^`]+)`", text)})
    for command in commands:
        words = command.replace("/run/hookjail/hookjail.sock", f"{daemon.directory}/sock").split()
        # A host can have gaps, which is 1; a command that is not known is 2.
        done = daemon.run(*words)
        if done.returncode not in (0, 1):
            fail(f"hookjail {command}: {done.returncode} {done.stderr}")
    if daemon.run("log", "--nonsense").returncode != 2:
        fail("an option that there is not is taken")
    print(f"{len(alerts)} alerts have paragraphs, {len(commands)} commands in them are known")


def promtool(program, *words, text=None):
    words = [program, *map(str, words)]
    return subprocess.run(words, input=text, capture_output=True, text=True)


def checked(result, what):
    if result.returncode != 0 or "error" in result.stderr.lower():
        fail(f"{what}: {result.stdout}{result.stderr}")
    print(f"{what}: {(result.stdout + result.stderr).strip() or 'nothing to say'}")


def files(tool):
    checked(promtool(tool, "check", "config", DEPLOYED / "prometheus.yml"), "check config")
    rules = DEPLOYED / "hookjail.rules.yml"
    checked(promtool(tool, "check", "rules", "--lint-fatal", rules), "check rules")
    tests = ROOT / "tests/observability/rules.test.yml"
    checked(promtool(tool, "test", "rules", tests), "test rules")


def work(daemon):
    """Has the daemon run and refuse; returns what must be counted, by expression."""
    for script in ["exit 0", "exit 0", "exit 3"]:
        daemon.hook("--profile", "strict", "--", "/bin/sh", "-c", script)
    slow = daemon.hook("--profile", "strict", "--timeout", "1s", "--", "/bin/sleep", "60")
    for _ in range(2):
        refused = daemon.hook("--profile", "nobodys", "--", "/bin/true")
        if "PROFILE_UNKNOWN" not in refused.stderr:
            fail(f"no refusal: {refused}")
    text = daemon.config.read_text()
    daemon.config.write_text(text.replace("127.0.0.1:0", "127.0.0.1:1"))
    if daemon.run("reload").returncode == 0:
        fail("a changed address took effect without a restart")
    daemon.config.write_text(text)
    if slow.returncode != 124:
        fail(f"no timeout: {slow}")
    return {
        'up{job="hookjail"}': 1,
        "sum(hookjail_runs_total)": 4,
        'sum(hookjail_runs_total{outcome="exited",profile="strict"})': 3,
        'sum(hookjail_runs_total{outcome="timed_out"})': 1,
        "hookjail_run_seconds_count": 4,
        "hookjail_setup_seconds_count": 4,
        "hookjail_queue_seconds_count": 4,
        'hookjail_refusals_total{reason="PROFILE_UNKNOWN"}': 2,
        'hookjail_refusals_total{reason="OVERLOADED"}': 0,
        "hookjail_unconfined_runs_total": 0,
        "hookjail_journal_writable": 1,
        "hookjail_last_reload_successful": 0,
        "hookjail_reload_failures_total": 1,
        'hookjail_run_axes_total{axis="write",coverage="enforced"}': 4,
        "count(hookjail_build_info)": 1,
        "instance:hookjail_calls:sum": 4,
        "count(instance:hookjail_calls_bad:sum)": 1,
        "hookjail_runs_in_flight": 0,
        "hookjail_pending_questions": 0,
    }


def main(hookjail, prometheus, tool):
    files(tool)
    directory = Path(tempfile.mkdtemp(prefix="hookjail-observability-"))
    # Hooks of root's daemon are other users, who have to get to their directories.
    directory.chmod(0o711)
    daemon = server = None
    try:
        for name in ["daemon", "prometheus"]:
            (directory / name).mkdir()
        daemon = Daemon(hookjail, directory / "daemon")
        expected = work(daemon)

        text = fetch(f"http://{daemon.metrics}/metrics")
        checked(promtool(tool, "check", "metrics", text=text), "check metrics")
        without_help = re.sub(r"^# HELP hookjail_runs_total .*\n", "", text, flags=re.M)
        if promtool(tool, "check", "metrics", text=without_help).returncode == 0:
            fail("`promtool check metrics` takes a metric without a description, too")

        server = Prometheus(prometheus, directory / "prometheus", daemon.metrics)
        until("the first scrape", lambda: server.value("up") == 1.0)
        for expression, value in expected.items():
            until(f"{expression} == {value}", lambda: server.value(expression) == value)
        # A rate begins with the second scrape.
        daemon.hook("--profile", "strict", "--", "/bin/sh", "-c", "exit 0")
        for expression in ["instance:hookjail_calls_bad:ratio_rate3d >= 0", "instance:hookjail_setup_seconds:p99_rate5m > 0"]:
            until(expression, lambda: server.value(expression) is not None)

        names, labels = families(text)
        asked, columns = dashboards()
        groups = server.api("rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        names.update(rule["name"] for rule in rules if rule["type"] == "recording")
        asked += [(rule["name"], rule["query"]) for rule in rules]
        for where, expression in asked:
            missing = unknown(expression, names, labels)
            if missing:
                fail(f"{where}: no scrape has {', '.join(sorted(missing))}")
            server.query(expression)
        # A line of the table is a host.
        for column, expression in columns.items():
            until(f"one value of {column}", lambda: server.value(expression) is not None)
            expected_labels = {"instance", "job"} | ({"version"} if column == "Version" else set())
            for line in map(json.loads, server.query(expression)):
                if set(line) != expected_labels:
                    fail(f"{column}: a line is of {line}")
        for column, value in {"Serves": 1, "Running": 0, "Journal writable": 1, "Version": 1}.items():
            until(f"{column} == {value}", lambda: server.value(columns[column]) == value)

        runbook(daemon, [rule for rule in rules if rule["type"] == "alerting"])
        if not unknown("hookjail_nonsense_total", names, labels):
            fail("a metric that there is not is not missed")
        if not unknown('sum by (path) (hookjail_runs_total{uid="0"})', names, labels):
            fail("a label that there is not is not missed")

        if not unknown('hookjail_refusals_total{reason=~"OVERLOADED|BUSY"}', names, labels):
            fail("a reason that there is not is not missed")

        def evaluated():
            groups = server.api("rules")["data"]["groups"]
            return [
                rule
                for group in groups
                for rule in group["rules"]
                if rule["health"] == "ok" and rule.get("state", "inactive") != "inactive"
            ]

        # That of the refused reload, and no other: refusals for other reasons are no alert. Others fill the disk of this host.
        def active():
            return [rule["name"] for rule in evaluated() if rule["name"] != "HookjailStateFills"]

        alerts = until("the alert", active)
        if alerts != ["HookjailReloadFailed"]:
            fail(f"alerts: {alerts}")
        daemon.stop()
        until("the daemon's absence", lambda: server.value("up") == 0.0)
        # A host that is away stays in the table, as one that does not serve.
        until("Serves == 0", lambda: server.value(columns["Serves"]) == 0)
        if server.value(columns["Version"]) is not None:
            fail("a daemon that is away has a version")
        print(f"{len(expected)} values arrived, {len(asked)} expressions are answered")
    finally:
        for it in [server, daemon]:
            if it and it.process.poll() is None:
                it.stop()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main(*sys.argv[1:])
