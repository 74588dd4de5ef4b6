"""`compiled.report` in a browser: it shows without a network, and tables are sorted by a click."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.py.compiler.browser import browser
from tests.py.compiler.test_report_page import lowered

pytestmark = pytest.mark.browser


def test_a_browser_shows_it_without_a_network_or_a_complaint(tmp_path: Path) -> None:
    one, two = tmp_path / "one.html", tmp_path / "two & more.html"
    lowered().report(one)
    lowered().report(two, other=lowered("fully"))
    opened = []
    with browser() as page:
        for path in (one, two):
            for width in (1280, 700):
                for dark in (False, True):
                    page.open(path, width, dark)
                    opened.append(path.as_uri())
                    wide = page.run("document.documentElement.scrollWidth")
                    assert wide <= width, f"{path.name} is {wide} wide in a window of {width}"
                    light = page.run("getComputedStyle(document.body).backgroundColor")
                    assert (light == "rgb(251, 251, 250)") != dark
        assert page.requests == opened
        # Its tables are sorted by a click, and by the next one the other way round.
        values = """[...document.querySelectorAll('table.collectives tbody tr')]
                    .map(row => Number(row.cells[0].dataset.value))"""
        page.open(one)
        before = page.run(values)
        assert before == sorted(before, reverse=True)
        assert len(set(before)) > 2
        click = "document.querySelector('table.collectives th button').click()"
        page.run(click)
        assert page.run(values) == before
        page.run(click)
        assert page.run(values) == before[::-1]
        assert page.complaints == []


def test_the_browser_notices_what_the_report_must_not_do(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<script>missing()</script><img src='http://127.0.0.1:1/x.png'>")
    with browser() as page:
        page.open(bad)
        assert len(page.requests) == 2
        assert re.search("missing is not defined", "\n".join(page.complaints))
