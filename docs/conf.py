"""How Sphinx builds the site: `make docs`, into build/docs. Nothing is fetched while it builds."""

from __future__ import annotations

import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from pygments.lexers.special import TextLexer

import dtensor

project = "dtensor"
author = "the dtensor authors"
release = version = dtensor.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
default_role = "code"  # docstrings write code in single backquotes
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
napoleon_use_rtype = False

html_theme = "furo"  # its fonts are the reader's own, its scripts and styles lie beside the pages
html_title = "dtensor"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
exclude_patterns = ["examples"]


class NotebookParser(MystParser):
    """Reads a notebook as the Markdown of its cells, each with what it printed."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the notebook's cells in order."""
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(_markdown(cell) for cell in cells), document)


def _markdown(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    printed = "".join("".join(output.get("text", ())) for output in cell["outputs"])
    return f"```python\n{source}\n```" + (f"\n\n```text\n{printed}```" if printed else "")


def setup(app: Any) -> None:
    """Called by Sphinx: notebooks are sources too."""
    app.add_lexer("mlir", TextLexer)  # Pygments does not know it
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
