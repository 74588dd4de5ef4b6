"""The user's lines: what each one sends, and what it holds at the peak."""

from __future__ import annotations

import linecache
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtensor.compiler.report.facts import Facts
from dtensor.passes.locations import short_path

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+):\d+(?: \(via .*\))?$")
_AROUND = 2  # lines shown before and after one that causes something


@dataclass(frozen=True)
class Line:
    """A line of a program.

    Attributes:
        number: from 1; 0 stands for lines left out.
        text: the line; empty where it cannot be read.
        sent: wire bytes per device and call, of each program.
        held: bytes at the peak, likewise.
    """

    number: int
    text: str
    sent: tuple[float, ...]
    held: tuple[float, ...]


@dataclass(frozen=True)
class SourceFile:
    """The lines of a file that cause something, and those around them."""

    name: str
    lines: tuple[Line, ...]


def source_files(programs: Sequence[Facts]) -> tuple[SourceFile, ...]:
    """The files of programs; the one whose lines send the most first, unknown places last.

    A combined collective counts at the line that it names.
    """
    zero = (0.0,) * len(programs)
    sent: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(lambda: [*zero]))
    held: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(lambda: [*zero]))
    paths: dict[str, str] = {}
    for i, facts in enumerate(programs):
        for c in facts.collectives:
            name, number = _place(c.location, c.file, paths)
            sent[name][number][i] += c.bytes * (c.trip_count or 1)
        for tensor in facts.held:
            if tensor.location:
                name, number = _place(tensor.location, tensor.file, paths)
                held[name][number][i] += tensor.bytes
    files = []
    for name in {**sent, **held}:
        numbers = {*sent[name], *held[name]}
        lines = [
            Line(
                number,
                _text(paths.get(name, ""), number),
                tuple(sent[name].get(number, zero)),
                tuple(held[name].get(number, zero)),
            )
            if number
            else Line(0, "", zero, zero)
            for number in _with_context(numbers, paths.get(name, ""))
        ]
        files.append(SourceFile(name, tuple(lines)))
    order = {file.name: sum(sum(line.sent) for line in file.lines) for file in files}
    return tuple(sorted(files, key=lambda file: (not file.name, -order[file.name])))


def _place(location: str, file: str, paths: dict[str, str]) -> tuple[str, int]:
    """File and line of a location; `paths` gets where the file is, if `file` is that one."""
    found = _PLACE.match(location)
    if found is None:
        return location, -1
    name = found["file"]
    if file and short_path(file) == name:
        paths.setdefault(name, file)
    return name, int(found["line"])


def _text(path: str, number: int) -> str:
    return linecache.getline(path, number).rstrip("\n") if path and number > 0 else ""


def _with_context(numbers: set[int], path: str) -> Iterator[int]:
    """The numbers with those around them, in order; a 0 where some are left out."""
    last = len(linecache.getlines(path)) if path else 0
    around = {
        near
        for number in numbers
        for near in range(number - _AROUND, number + _AROUND + 1)
        if number > 0 and 0 < near <= last
    }
    shown = sorted(numbers | around)
    while shown[-1] not in numbers and not _text(path, shown[-1]).strip():
        shown.pop()
    previous = 0
    for number in shown:
        if previous > 0 and number > previous + 1:
            yield 0
        yield number
        previous = number
