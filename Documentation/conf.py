# SPDX-License-Identifier: GPL-2.0
"""How Sphinx makes a site of the pages: make docs.

The pages are plain reStructuredText that any renderer takes: their links name files. Here these
become links to pages, and the index gets a table of contents.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes

project = "lsmem"
root_doc = "Documentation/index"
exclude_patterns: list[str] = []
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "240px"}
html_sidebars = {"**": ["globaltoc.html", "searchbox.html"]}
html_extra_path = ["extra"]
html_show_copyright = False
html_copy_source = False


def contents(_app: Any, name: str, source: list[str]) -> None:
    """Adds a table of all pages to the index, in the order in which it names them."""
    if name != root_doc:
        return
    pages = dict.fromkeys(re.findall(r"<([\w./-]+)\.rst>`__", source[0]))
    entries = "".join(f"   {'/' + page.removeprefix('../') if page.startswith('..') else page}\n"
                      for page in pages)
    source[0] += f"\n.. toctree::\n   :hidden:\n   :maxdepth: 1\n\n{entries}"


def links(app: Any, tree: Any, _name: str) -> None:
    """Has links to files lead to what is made of them."""
    for link in tree.findall(nodes.reference):
        target = link.get("refuri", "")
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            continue
        if path.endswith(".rst"):
            link["refuri"] = path.removesuffix(".rst") + ".html" + hash_ + anchor
        elif re.search(r"\.\d$", path):
            link["refuri"] = path + ".html"
        elif not (Path(app.srcdir) / "extra" / "Documentation" / path).exists():
            link.replace_self(nodes.literal("", link.astext()))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", contents)
    app.connect("doctree-resolved", links)
