"""Errors with a place in the user's source, and how they are written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, cast

from dtensor.dialect.errors import CompileError
from dtensor.dialect.mlir import ir

_ROOT = Path(__file__).resolve().parent.parent
_OURS = tuple(
    f"{_ROOT}{os.sep}{folder}{os.sep}"
    for folder in ("dtensor", "dialect", "passes", "compiler", "runtime", "tools")
)
_STDLIB = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
_SITE = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_PREFIXES = re.compile(r"^(?:dtensor|stablehlo|chlo|sdy|func)[.\-]")
UNNAMED = "-"  # what MLIR calls text that it was not given a file for


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a source file; lines and columns count from 1.

    Attributes:
        file: the file.
        line: its line.
        column: its column.
        function: the function that it is in; empty where that is not known.
    """

    file: str
    line: int
    column: int
    function: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def is_library(self) -> bool:
        """Whether the file belongs to the standard library, an installed package or dtensor."""
        if self.file.startswith("<frozen") or any(site in self.file for site in _SITE):
            return True
        return self.file.startswith(_STDLIB) or self.is_ours

    @property
    def is_ours(self) -> bool:
        """Whether the file belongs to dtensor."""
        return self.file.startswith(_OURS)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about the user's program.

    Attributes:
        severity: "error", "warning", "note" or "remark".
        place: where, if known.
        message: one line, lower case.
        notes: further places and sentences that belong to it.
    """

    severity: str
    place: Place | None
    message: str
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place is not None else ""
        return f"{where}{self.severity}: {self.message}"


class LocatedError(CompileError):
    """An error in the user's program; its text starts with `file:line:col` where there is one.

    Attributes:
        place: where the first error is, if known.
        message: the sentence without the place.
        diagnostics: every error found, the first one included.
    """

    def __init__(
        self,
        place: Place | None,
        message: str,
        diagnostics: Sequence[Diagnostic] = (),
    ) -> None:
        self.place = place
        self.message = message
        self.diagnostics = tuple(diagnostics) or (Diagnostic("error", place, message),)
        super().__init__(f"{place}: {message}" if place is not None else message)

    @classmethod
    def of(cls, diagnostics: Sequence[Diagnostic]) -> LocatedError:
        """The error that reports all of `diagnostics` (at least one), the first one foremost."""
        first = next((d for d in diagnostics if d.severity == "error"), diagnostics[0])
        return cls(first.place, first.message, diagnostics)


Where = ir.Location | ir.Operation | ir.OpView


def error(where: Where, message: str) -> NoReturn:
    """Raise the error `message` about an operation, or about a location.

    Raises:
        LocatedError: always.
    """
    raise LocatedError(place_of(where), message) from None


def diagnostic(where: Where, message: str, severity: str = "error") -> Diagnostic:
    """A message about an operation or a location, without raising it."""
    return Diagnostic(severity, place_of(where), message)


# Places in MLIR locations.


def name_source(context: ir.Context, filename: str) -> None:
    """Say what the file is called from which this context's unnamed modules were read."""
    context.dtensor_source_name = filename  # type: ignore[attr-defined]


_AGAIN = 16  # how often one part of a location is looked at: parts may share parts without end


def _frames(location: ir.Location) -> Iterator[tuple[ir.FileLineColLoc, str]]:
    """The frames, and the functions that they are in: a function's name stands around its line."""
    left = [(location, "")]
    seen: dict[ir.Attribute, int] = {}  # a location itself has no hash that equal ones share
    while left:
        part, name = left.pop()
        times = seen[part.attr] = seen.get(part.attr, 0) + 1
        if times > _AGAIN:
            continue
        if isinstance(part, ir.FileLineColLoc):
            yield part, name
        elif isinstance(part, ir.NameLoc):
            is_path = "/" in part.name_str  # of jax's transformations
            left.append((part.child_loc, "" if is_path else part.name_str))
        elif isinstance(part, ir.CallSiteLoc):
            left += ((part.caller, ""), (part.callee, ""))
        elif isinstance(part, ir.FusedLoc):
            left += [(cast(ir.Location, child), "") for child in reversed(part.locations)]


def frames(location: ir.Location) -> Iterator[Place]:
    """The call stack in a location, innermost frame first; empty where nothing is known."""
    source = getattr(location.context, "dtensor_source_name", UNNAMED)
    for frame, name in _frames(location):
        if frame.start_line > 0:
            file = source if frame.filename == UNNAMED else frame.filename
            yield Place(file, frame.start_line, frame.start_col, name)


def start_of(module: ir.Module) -> Place:
    """Where a module begins; MLIR does not know it of a text without `module`, or of nothing."""
    source = getattr(module.context, "dtensor_source_name", UNNAMED)
    return place_of(module.operation) or Place(source, 1, 1)


def place_of(where: Where) -> Place | None:
    """The user's line: the innermost frame outside all libraries, or else the outermost one."""
    frame = None
    for frame in frames(where if isinstance(where, ir.Location) else where.operation.location):
        if not frame.is_library:
            break
    return frame


# MLIR's own diagnostics.


def from_mlir(failure: ir.MLIRError) -> list[Diagnostic]:
    """What MLIR says went wrong, as our diagnostics."""
    found = [_converted(info) for info in failure.error_diagnostics]
    return found or [Diagnostic("error", None, _first_line(str(failure)))]


def _converted(info: ir.DiagnosticInfo) -> Diagnostic:
    notes = tuple(
        _converted(note)
        for note in info.notes
        if not note.message.startswith("see current operation")
    )
    severity = info.severity.name.lower()
    location = info.location  # comes as a plain Location; this gives it its class
    location = ir.Location.from_attr(location.attr, location.context)
    return Diagnostic(severity, place_of(location), _first_line(info.message), notes)


def _first_line(text: str) -> str:
    """MLIR appends the whole operation to some messages; one line says what is wrong."""
    return text.strip().split("\n", 1)[0]


# Writing.


class SourceText:
    """The lines of the files that diagnostics point into.

    Args:
        texts: text by file name, for input that is not on disk; other files are read on demand.
    """

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        self._lines = {name: text.split("\n") for name, text in (texts or {}).items()}

    def line(self, place: Place) -> str | None:
        """The source line at `place`; None if it cannot be read."""
        if place.file not in self._lines:
            try:
                text = Path(place.file).read_text(encoding="utf-8")
            except (OSError, ValueError):
                text = ""
            self._lines[place.file] = text.split("\n")
        lines = self._lines[place.file]
        if not 0 < place.line <= len(lines):
            return None
        return lines[place.line - 1] or None


def formatted(item: Diagnostic, source: SourceText) -> str:
    """`file:line:col: error: message`, then the source line with a caret under the column."""
    text = str(item)
    line = source.line(item.place) if item.place is not None else None
    if item.place is not None and line is not None:
        column = max(item.place.column - 1, 0)
        indent = "".join("\t" if c == "\t" else " " for c in line[:column].ljust(column))
        text += f"\n  {line}\n  {indent}^"
    return "\n".join([text, *(formatted(note, source) for note in item.notes)])


def did_you_mean(found: object, known: Sequence[str], listed: bool = True) -> str:
    """`; did you mean 'x'?`, or if nothing is close and it is `listed`, what is known."""
    from difflib import get_close_matches

    # Compared without their common prefix, or every dtensor.a would be close to every dtensor.b.
    stems: dict[str, str] = {}
    for name in known:
        stems.setdefault(_stem(name), name)
    close = get_close_matches(_stem(str(found)), list(stems), n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{stems[close[0]]}'?"
    return f"; known are {', '.join(known)}" if known and listed else ""


def _stem(name: str) -> str:
    return _PREFIXES.sub("", name, count=1)
