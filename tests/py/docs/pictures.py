"""The pictures of docs/pictures.md.

python -m tests.py.docs.pictures    draws them anew; the report's needs Chromium
"""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.pictures.layouts import layout_picture
from dtensor.dialect.pictures.svg import svg
from tests.py.compiler.browser import browser
from tests.py.docs.blocks import DOCS, run_page

PAGE = DOCS / "pictures.md"
LAYOUT = DOCS / "_static" / "layout.svg"
REPORT = DOCS / "_static" / "report.png"
_HEIGHT = 960  # pixels: totals, lines, and the first collectives


def layout_svg() -> str:
    """The array that the page draws first."""
    layout = Layout(["data", "model"], Mesh([("data", 2), ("model", 4)]))
    return svg(layout_picture(layout, (8, 16)), "float32 8x16 on mesh(data=2, model=4)") + "\n"


def report_png() -> bytes:
    """The report that the page writes, as a browser shows it."""
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        for _ in run_page(PAGE, Path(folder)):
            pass
        page.open(Path(folder) / "report.html", width=1000)
        clip = {"x": 0, "y": 0, "width": 1000, "height": _HEIGHT, "scale": 1}
        shot = page.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


if __name__ == "__main__":
    LAYOUT.write_text(layout_svg(), encoding="utf-8")
    REPORT.write_bytes(report_png())
