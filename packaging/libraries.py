#!/usr/bin/env python3
"""Libraries that are linked into the programs, as Cargo resolves them: a list for machines, or the licences for people.

libraries.py sbom TARGET           CycloneDX 1.5, as JSON
libraries.py notices TARGET...     the texts of all licences, each once
"""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(target):
    """The packages of a target's programs, hookjail first, and which of them use which; nothing that only builds or tests."""
    # The tree has the programs' packages and features; the metadata are of everything in the lock file.
    tree = ["cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--target", target, "--prefix", "none", "--format", "{p}"]
    names = {tuple(line.split()[:2]) for line in run(*tree).splitlines() if line}
    metadata = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    packages = {p["id"]: p for p in metadata["packages"] if (p["name"], "v" + p["version"]) in names}
    if len(packages) != len(names):
        sys.exit(f"{len(names)} packages are linked, and {len(packages)} of them known")
    uses = {}
    for node in metadata["resolve"]["nodes"]:
        if node["id"] in packages:
            normal = (d["pkg"] for d in node["deps"] if any(k["kind"] is None for k in d["dep_kinds"]))
            uses[node["id"]] = sorted(d for d in normal if d in packages)
    root = metadata["resolve"]["root"]
    return [packages[root]] + sorted((p for i, p in packages.items() if i != root), key=lambda p: (p["name"], p["version"])), uses


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def licence(package):
    # Older manifests write "or" as a slash.
    return package["license"].replace("/", " OR ")


def component(package, checksums):
    found = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "licenses": [{"expression": licence(package)}],
        "purl": purl(package),
    }
    if checksum := checksums.get((package["name"], package["version"])):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def sbom(target):
    packages, uses = linked(target)
    lock = tomllib.loads(pathlib.Path("Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    by_id = {p["id"]: purl(p) for p in packages}
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    components = [component(p, checksums) for p in packages]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same for the same content.
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([target, time.isoformat(), components])).urn,
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**components[0], "type": "application"},
            "properties": [{"name": "cdx:rustc:target", "value": target}],
        },
        "components": components[1:],
        "dependencies": [{"ref": by_id[i], "dependsOn": [by_id[d] for d in uses[i]]} for i in sorted(by_id)],
    }


def notices(targets):
    # Without hookjail's own crates, whose licence is the package's.
    packages = {p["id"]: p for target in targets for p in linked(target)[0] if p["source"]}
    texts = {}
    for package in packages.values():
        directory = pathlib.Path(package["manifest_path"]).parent
        name = f"{package['name']} {package['version']} ({licence(package)})"
        files = [f for f in sorted(directory.iterdir()) if f.is_file() and f.name.upper().startswith(("LICEN", "COPYING", "NOTICE", "COPYRIGHT"))]
        # Where a package has no text of its own, who wrote it stands in its manifest.
        found = [f.read_text(errors="replace").strip() for f in files if f.suffix != ".rs"]
        for text in found or [f"No text comes with the package. Its authors: {', '.join(package['authors']) or 'not named'}; {package['repository']}"]:
            texts.setdefault(text, []).append(name)
    print((pathlib.Path(__file__).parent / "notices.txt").read_text().strip())
    for text, names in sorted(texts.items(), key=lambda pair: pair[1][0]):
        print("\n" + "=" * 80, *sorted(names), "-" * 80, text, sep="\n")


match sys.argv[1:]:
    case ["sbom", target]:
        json.dump(sbom(target), sys.stdout, indent=1)
        print()
    case ["notices", *targets] if targets:
        notices(targets)
    case _:
        sys.exit(__doc__)
