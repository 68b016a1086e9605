"""Builds the site: the repository's own Markdown, as it is, with a landing page, a navigation and a search.

Nothing in the documents is written for the site. This file has the parts that the site needs beside them.
"""
import re
import shutil
import tomllib
from pathlib import Path

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer
from sphinx.addnodes import pending_xref
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

ROOT = Path(__file__).parents[2]
logger = logging.getLogger(__name__)
package = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]

project = "hookjail"
release = version = package["version"]
project_copyright = "the authors of hookjail"
extensions = ["myst_parser", "sphinx_copybutton", "sphinxcontrib.asciinema"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "clients/*/README.md"]

# GitHub's anchors, and of MyST's own syntax only the directive below.
myst_heading_anchors = 6
myst_disable_syntax = ["myst_role", "myst_target", "myst_line_comment", "myst_block_break"]
myst_enable_extensions = ["tasklist", "strikethrough"]
# Examples are shortened by an ellipsis, which is not JSON.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"hookjail {release}"
html_favicon = "static/icon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
html_additional_pages = {"index": "landing.html"}
# Output of commands and the prompt before them are not copied.
copybutton_selector = "div:not(.highlight-text) > div.highlight pre, .landing div.highlight pre"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": package["repository"],
    "source_branch": "main",
    "source_directory": "",
    "top_of_page_buttons": ["view"],
}

clients = sorted(str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.glob("clients/*/README.md"))

NAVIGATION = {
    "Start": ["docs/tutorial", "docs/second-day", "docs/install", "docs/packages", "docs/comparison"],
    "Runtimes": ["docs/contracts", "docs/git-hooks", "docs/runtimes/*"],
    "Hooks and profiles": ["docs/declarations", "docs/testing", "docs/profiles", "docs/backends", "docs/nesting", "docs/seatbelt"],
    "Operate": ["docs/operations", "docs/backup", "docs/network", "docs/many-machines", "docs/organisations", "docs/reliability", "docs/performance"],
    "API and clients": ["docs/runtime-authors", "docs/api", *clients],
    "Security": ["docs/threat-model", "docs/escape-matrix", "SECURITY"],
    "Reference": ["docs/command-line", "docs/configuration", "docs/specification", "docs/glossary", "CHANGELOG"],
    "Design": ["docs/architecture", "docs/adr/README", "CONTRIBUTING", "docs/tiers"],
}

# The first questions of readers, and the places of the answers.
QUESTIONS = [
    ("What does a hook get to see and do?", "docs/profiles", "#shipped-profiles"),
    ("Does it work with my agent?", "docs/contracts", ""),
    ("I edited a hook, or pulled: why is it refused?", "docs/second-day", "#a-hook-was-refused"),
    ("A hook lacks a file or a host: how does it get that?", "docs/second-day", "#a-hook-was-denied-something"),
    ("How do I test my hooks, also in CI?", "docs/testing", "#in-ci"),
    ("Does it work on Ubuntu 24.04, in Docker, on a Mac?", "docs/install", "#requirements"),
    ("How slow does it make a guard?", "docs/performance", "#what-a-guard-feels-like"),
    ("What does it not stop?", "docs/threat-model", "#what-is-not-stopped"),
    ("An update changed a plugin's hook: what happens?", "docs/declarations", "#an-update-with-a-trojan"),
    ("How does a team require hooks and profiles?", "docs/organisations", "#required-hooks"),
    ("What happens when the daemon is down or the disk is full?", "docs/reliability", "#invariants"),
    ("How do I get rid of it?", "docs/second-day", "#uninstalling"),
]


def add_landing(_app, pagename, _template, context, _doctree):
    """Gives the landing page the attack and the commands of the README."""
    # The brand of each page leads to the landing page.
    context["master_doc"] = "index"
    if pagename != "index":
        return
    readme = (ROOT / "README.md").read_text()
    # The attack has a command of each kind; the commands to install come next.
    attack, install = re.findall(r"```(?:text|sh)\n(.*?)```", readme, re.DOTALL)[:2]
    show = HtmlFormatter()
    context["attack"] = [highlight(part, TextLexer(), show) for part in attack.split("\n\n")]
    context["install"] = highlight(install, TextLexer(), show)
    context["questions"] = QUESTIONS


def add_navigation(_app, docname, source):
    """Appends the hidden tables of contents that the sidebar is made of."""
    if docname == root_doc:
        for caption, entries in NAVIGATION.items():
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n" + "\n".join(entries) + "\n```\n"
    elif docname == "docs/adr/README":
        for path in sorted(ROOT.glob("docs/adr/[0-9]*.md")):
            title = path.read_text().splitlines()[0].removeprefix("# ")
            if f"[{title}]({path.name})" not in source[0]:
                logger.warning("docs/adr/README.md does not list %s as `%s`", path.name, title)
        source[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"


class LinkToRepository(SphinxPostTransform):
    """Sends links to directories, and to documents that are not of the site, to the code host.

    Other files are copied into the site.
    """

    default_priority = 8  # before MyST resolves what is left

    def run(self):
        for node in list(self.document.findall(pending_xref)):
            # Documents are named from the root and without their extension, all else as it is written.
            if node["refdomain"] == "doc":
                path = ROOT / f"{node['reftarget']}.md"
                if node["reftarget"] in self.env.all_docs:
                    continue
            else:
                path = (ROOT / self.env.docname).parent / node["reftarget"]
            path = path.resolve()
            if node["reftype"] == "myst" and path.exists() and path.is_relative_to(ROOT) and path != ROOT:
                kind = "tree" if path.is_dir() else "blob"
                uri = f"{package['repository']}/{kind}/main/{path.relative_to(ROOT)}"
                node.replace_self(nodes.reference("", "", *node.children, internal=False, refuri=uri))


def copy_recording(app, failed):
    """Puts the recording where the landing page plays it."""
    if not failed and app.builder.name == "html":
        shutil.copy(ROOT / "docs/install.cast", Path(app.outdir, "_static"))


def setup(app):
    app.connect("source-read", add_navigation)
    app.add_post_transform(LinkToRepository)
    app.connect("html-page-context", add_landing)
    app.connect("build-finished", copy_recording)
