"""`--split-input-file` and `--verify-diagnostics`, as mlir-opt has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.diagnostics import Diagnostic

_SEPARATOR = re.compile(r"^// -----[^\n]*(?:\n|\Z)", re.MULTILINE)
_EXPECTED = re.compile(
    r"expected-(error|warning|note|remark)(?:-re)?\s*(?:@([+-]\d+|above|below|unknown))?"
    r"\s*\{\{(.*?)\}\}"
)
UNKNOWN = 0  # the line of what has no place


@dataclass(frozen=True)
class Chunk:
    """One module of a split file, and the line it starts on."""

    text: str
    first_line: int


def split(text: str) -> list[Chunk]:
    """The modules that `// -----` lines separate."""
    chunks = []
    start = 0
    for match in [*_SEPARATOR.finditer(text), None]:
        end = len(text) if match is None else match.start()
        chunks.append(Chunk(text[start:end], text.count("\n", 0, start) + 1))
        start = end if match is None else match.end()
    return [chunk for chunk in chunks if chunk.text.strip()] or chunks[:1]


@dataclass(frozen=True)
class Expected:
    """A diagnostic that a comment in the input asks for."""

    line: int
    severity: str
    text: str


def expected(text: str) -> list[Expected]:
    """The diagnostics that comments such as `// expected-error @+1 {{sentence}}` ask for."""
    found: list[Expected] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        for severity, where, sentence in _EXPECTED.findall(line):
            found.append(Expected(_target(number, where, lines), severity, sentence))
    return found


def _target(number: int, where: str, lines: Sequence[str]) -> int:
    """The line meant; @above and @below skip lines that hold other expectations."""
    if where == "unknown":
        return UNKNOWN
    if where in ("above", "below"):
        step = -1 if where == "above" else 1
        number += step
        while 0 < number <= len(lines) and "// expected-" in lines[number - 1]:
            number += step
        return number
    return number + int(where) if where else number


def mismatches(
    wanted: Sequence[Expected], found: Sequence[Diagnostic], file: str
) -> list[Diagnostic]:
    """What was found but not expected, and what was expected but not found."""
    from dtensor.dialect.diagnostics import Place

    open_ = list(wanted)
    wrong = []
    for item in _flat(found):
        line = item.place.line if item.place is not None else UNKNOWN
        match = next(
            (
                e
                for e in open_
                if (e.line, e.severity) == (line, item.severity) and e.text in item.message
            ),
            None,
        )
        if match is not None:
            open_.remove(match)
        else:
            message = f"unexpected {item.severity}: {item.message}"
            wrong.append(Diagnostic("error", item.place, message))
    for missing in open_:
        place = Place(file, missing.line, 1) if missing.line != UNKNOWN else None
        message = f'expected {missing.severity} "{missing.text}" was not produced'
        wrong.append(Diagnostic("error", place, message))
    return wrong


def _flat(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [each for item in found for each in (item, *_flat(item.notes))]
