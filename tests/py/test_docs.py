"""The pages of docs/: generated ones are fresh, links lead somewhere, commands print as shown."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dtensor.tools.generate_docs import main, pages

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# A block `$ dtensor-opt ...` and, after it, what that prints.
SHELL = re.compile(r"```console\n\$ (dtensor-opt .*?)\n(.*?)```", re.DOTALL)

# A program and, after the word "prints", what it prints.
PROGRAM = re.compile(r"```python\n(.*?)```\n\nprints\n\n```\w*\n(.*?)```", re.DOTALL)


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


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def blocks(pattern: re.Pattern[str]) -> list[tuple[str, str, str]]:
    return [
        (page.name, source, output)
        for page in DOCS
        for source, output in pattern.findall(page.read_text(encoding="utf-8"))
    ]


def test_there_are_examples() -> None:
    assert len(blocks(SHELL)) >= 8
    assert len(blocks(PROGRAM)) >= 1


@pytest.mark.parametrize(("page", "command", "output"), blocks(SHELL))
def test_commands_print_what_the_page_says(page: str, command: str, output: str) -> None:
    words = shlex.split(command)[1:]
    printed = run(["-m", "dtensor.tools.dtensor_opt", *words])
    assert matches(output, printed), f"docs/{page}: {command} prints\n{printed}"


@pytest.mark.parametrize(("page", "program", "output"), blocks(PROGRAM))
def test_programs_print_what_the_page_says(
    page: str, program: str, output: str, tmp_path: Path
) -> None:
    (tmp_path / "example.py").write_text(program, encoding="utf-8")
    printed = run([str(tmp_path / "example.py")])
    assert matches(output, printed), f"docs/{page}: a program prints\n{printed}"


def run(words: list[str]) -> str:
    """What Python prints in docs/, on stdout and then on stderr."""
    result = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT / "docs",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return result.stdout + result.stderr


def matches(expected: str, printed: str) -> bool:
    """Whether the lines are the same; a line `...` stands for any number of lines."""
    parts = [part.strip("\n") for part in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE)]
    pattern = r"\n(?:.*\n)?".join(re.escape(part) for part in parts)
    return re.fullmatch(rf"\n*{pattern}\n*", printed, flags=re.DOTALL) is not None


def test_what_matches() -> None:
    assert matches("a\nb\n", "a\nb\n")
    assert not matches("a\nb\n", "a\nc\nb\n")
    assert matches("a\n...\nb\n", "a\nc\nd\nb\n")
    assert not matches("a\n...\nb\n", "x\na\nb\n")
