"""The pages of docs/ that are written from tables are fresh."""

from pathlib import Path

import pytest

from dtensor.tools.generate_docs import main, pages
from tests.py.docs import pictures

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_are_fresh(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == pages()[name], "run python -m dtensor.tools.generate_docs"


def test_the_check_says_what_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dtensor.tools.generate_docs.DOCS", tmp_path)
    assert main(["--check"]) == 1
    assert "docs/passes.md is out of date" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_the_picture_of_a_layout_is_fresh() -> None:
    written = pictures.LAYOUT.read_text(encoding="utf-8")
    assert written == pictures.layout_svg(), "run python -m tests.py.docs.pictures"
