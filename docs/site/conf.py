"""Builds the site: the repository's own Markdown, as it is, with a navigation and a search.

Nothing in the documents is written for the site. What the site needs beside them stands here.
"""
import shutil
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

ROOT = Path(__file__).parents[2]
logger = logging.getLogger(__name__)
package = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]

project = "hookjail"
release = version = package["version"]
project_copyright = "the authors of hookjail"
extensions = ["myst_parser"]
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
    "Security": ["docs/threat-model", "docs/escape-matrix", "docs/findings", "SECURITY"],
    "Reference": ["docs/command-line", "docs/configuration", "docs/specification", "docs/glossary", "CHANGELOG"],
    "Design": ["docs/architecture", "docs/adr/README", "CONTRIBUTING", "docs/tiers"],
}


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


def make_start_page(app, failed):
    """The README is the start page, and keeps its own name for the links to it."""
    if not failed and app.builder.name == "html":
        shutil.copy(Path(app.outdir, "README.html"), Path(app.outdir, "index.html"))


def setup(app):
    app.connect("source-read", add_navigation)
    app.add_post_transform(LinkToRepository)
    app.connect("build-finished", make_start_page)
