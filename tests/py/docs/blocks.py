"""The code blocks of the pages of docs/, and what they print.

    python -m tests.py.docs.blocks    writes into the pages what their programs and commands print

A page is read from top to bottom, in one folder:

- A ```python block is a program, run by itself. Its first line may name its file, `# train.py`;
  else it is `example.py`. After it stand a line "prints" and a block with what it prints, or it
  prints nothing.
- A ```toml or ```mlir block whose first line names a file is that file.
- A ```console block is a command after `$ ` and what it prints.

In what is printed, `...` stands for anything, also for whole lines.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.py import fresh
from tests.py.xla_flags import QUICK

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md"))

# What tests/py/accelerators runs, where compilers of TPUs and GPUs are.
ELSEWHERE = [DOCS / "targets.md"]

_PROGRAM = re.compile(
    r"^```python\n(?P<source>.*?)^```$(?:\n\nprints\n\n```\w*\n(?P<output>.*?)^```$)?", re.M | re.S
)
_COMMAND = re.compile(r"^```console\n\$ (?P<source>[^\n]*)\n(?P<output>.*?)^```$", re.M | re.S)
_FILE = re.compile(r"^```\w+\n(?:#|//) (?P<name>[\w-]+\.\w+)\n.*?^```$", re.M | re.S)
_TOOLS = {name: name.replace("-", "_") for name in ("dtensor-launch", "dtensor-opt", "dtensor-run")}
# gloo says on each device that it is connected, in pieces: those of two devices can mix.
_NOISE = re.compile(r"^.*\bpeer ranks\b.*\n", re.M)
_PIECES = re.compile(r"^\[\d+\] (?:\[Gloo\] Rank |\d+| is connected to )*\n", re.M)
# XLA's own numbers, which differ between its releases.
_OF_XLA = re.compile(r"(memory of a device: ).*")


@dataclass(frozen=True)
class Block:
    """A program or a command of a page.

    Attributes:
        line: where its source begins, for messages.
        words: the command to run.
        output: what the page says it prints; None where it says nothing.
        span: where `output` stands in the page.
    """

    line: int
    words: list[str]
    output: str | None
    span: tuple[int, int]


def blocks_of(page: Path) -> list[Block]:
    """The programs and commands of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    found = [(m, ["python", _name_of(m["source"])]) for m in _PROGRAM.finditer(text)]
    found += [(m, shlex.split(m["source"])) for m in _COMMAND.finditer(text)]
    return [
        Block(text[: m.start("source")].count("\n") + 1, words, m["output"], m.span("output"))
        for m, words in sorted(found, key=lambda pair: pair[0].start())
    ]


def _name_of(source: str) -> str:
    named = re.match(r"# ([\w-]+\.py)\n", source)
    return named[1] if named else "example.py"


def run_page(page: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    """Run every block of a page in `folder`; the blocks, and what each printed."""
    text = page.read_text(encoding="utf-8")
    shutil.copytree(DOCS / "examples", folder / "examples")
    for match in _FILE.finditer(text):
        content = match[0].partition("\n")[2].removesuffix("```")
        (folder / match["name"]).write_text(content, encoding="utf-8")
    sources = iter(match["source"] for match in _PROGRAM.finditer(text))
    for block in blocks_of(page):
        if block.words[0] == "python":
            (folder / block.words[1]).write_text(next(sources), encoding="utf-8")
        yield block, run(block.words, folder)


def run(words: list[str], folder: Path) -> str:
    """What a command prints, on stdout and then on stderr; clients in the order of their ids."""
    first, *rest = words
    program = rest if first == "python" else ["-m", f"dtensor.tools.{_TOOLS[first]}", *rest]
    # A reader's programs have as many devices as they ask for: no flag says so.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": QUICK}
    environment.pop("JAX_PLATFORMS", None)  # as a reader has it, who has not set any
    done = fresh.run(program, cwd=folder, env=environment)
    printed = _OF_XLA.sub(r"\1...", _NOISE.sub("", done.stdout)) + done.stderr
    return by_client(printed) if first == "dtensor-launch" else printed


def by_client(printed: str) -> str:
    """What dtensor-launch prints, in the order of the clients' ids, without what gloo says."""
    return "".join(sorted(_PIECES.sub("", _NOISE.sub("", printed)).splitlines(True)))


def matches(expected: str, printed: str) -> bool:
    """Whether the texts are the same but for `...` and blank lines at the ends."""
    flags = doctest.ELLIPSIS | doctest.DONT_ACCEPT_BLANKLINE
    return doctest.OutputChecker().check_output(expected.strip("\n"), printed.strip("\n"), flags)


def write(page: Path) -> bool:
    """Put what the blocks print now in place of what differs; whether anything did."""
    text, shift = page.read_text(encoding="utf-8"), 0
    with tempfile.TemporaryDirectory() as folder:
        for block, printed in run_page(page, Path(folder)):
            if "Traceback" in printed:
                raise SystemExit(f"{page}:{block.line} fails:\n{printed}")
            if block.output is not None and not matches(block.output, printed):
                start, end = (place + shift for place in block.span)
                new = printed.strip("\n") + "\n"
                text = text[:start] + new + text[end:]
                shift += len(new) - (end - start)
    page.write_text(text, encoding="utf-8")
    return shift != 0


if __name__ == "__main__":
    for each in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        if each not in ELSEWHERE and write(each):
            print(each.relative_to(ROOT))
