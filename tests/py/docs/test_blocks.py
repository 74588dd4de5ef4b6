"""Every program, command and session of the documentation does what the page says."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.py import fresh
from tests.py.docs.blocks import (
    DOCS,
    ELSEWHERE,
    PAGES,
    ROOT,
    blocks_of,
    by_client,
    matches,
    run_page,
)

SESSIONS = [page for page in PAGES if ">>> " in page.read_text(encoding="utf-8")]
SCRIPT = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def test_the_pages_have_blocks() -> None:
    assert sum(len(blocks_of(page)) for page in PAGES) >= 25
    assert len(SESSIONS) >= 4


@pytest.mark.parametrize("page", [p for p in PAGES if blocks_of(p)], ids=name_of)
def test_programs_and_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    if page in ELSEWHERE:
        return
    for block, printed in run_page(page, tmp_path):
        assert matches(block.output or "", printed), f"docs/{name_of(page)}:{block.line}\n{printed}"


@pytest.mark.parametrize("page", SESSIONS, ids=name_of)
def test_sessions_are_real(page: Path) -> None:
    # In a process of its own: the sessions choose the devices.
    words = ["-m", "doctest", "-o", "ELLIPSIS", str(page)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = fresh.run(words, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_is_in_a_block_that_runs(page: Path) -> None:
    # A fence in a list, or of another spelling, would be shown and never run.
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^ *(```|~~~) *(?:py\w*|\{code.*)", text, re.MULTILINE)
    assert len(fences) == len(re.findall(r"^```python$", text, re.MULTILINE))
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_shell_scripts_can_be_read(page: Path) -> None:
    for script in SCRIPT.findall(page.read_text(encoding="utf-8")):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_what_matches() -> None:
    assert matches("a\nb\n", "a\nb\n")
    assert not matches("a\nb\n", "a\nc\nb\n")
    assert matches("a\n...\nb\n", "a\nc\nd\nb\n")
    assert not matches("a\n...\nb\n", "x\na\nb\n")
    assert matches("took ... s\n", "took 3 s\n")


def test_what_gloo_says_is_left_out_also_where_its_lines_mix() -> None:
    printed = """[1] of the program: 7
[0] [Gloo] Rank 0 is connected to [Gloo] Rank 7 peer ranks. Expected number of connected
[0] 7
[0]\x20
[0] of the program: 8
"""
    assert by_client(printed) == "[0] of the program: 8\n[1] of the program: 7\n"
