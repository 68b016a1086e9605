"""Checks a list of libraries: CycloneDX 1.5, complete, each library once."""

import json
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

path = pathlib.Path(sys.argv[1])
text = path.read_text()
if error := JsonStrictValidator(SchemaVersion.V1_5).validate_str(text):
    sys.exit(f"{path.name}: {error}")
document = json.loads(text)
refs = [component["bom-ref"] for component in document["components"]]
if len(refs) != len(set(refs)):
    sys.exit(f"{path.name}: a library is listed twice")
for name in ("tokio", "rustls", "ring"):
    if not any(component["name"] == name for component in document["components"]):
        sys.exit(f"{path.name}: {name} is missing")
used = {ref for entry in document["dependencies"] for ref in entry["dependsOn"]}
if lost := set(refs) - used:
    sys.exit(f"{path.name}: nothing uses {', '.join(sorted(lost))}")
# A list with something else in it is refused, so that what is not refused is worth something.
document["components"][0]["type"] = "book"
if not JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps(document)):
    sys.exit("the validator takes anything")
print(f"{path.name}: valid, {len(refs)} libraries")
