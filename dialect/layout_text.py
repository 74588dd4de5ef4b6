"""Reading the written form of a layout: `#dtensor.layout<@mesh, [{"x"}, {3, "y"}, {?}]>`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import MATCHED, Dim
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import MATCH, OPEN, Layout
from dtensor.dialect.layout_entries import bar, dims_of, no_mesh
from dtensor.dialect.mesh import Mesh

_TOKEN = re.compile(
    r'\s*(?:"([^"]*)"|(@[\w.\-]+|@"[^"]*")|(\d{1,18})(?!\d)|([A-Za-z_]\w*)|([\[\]{}<>,?!:()=]))'
)
_PRIORITY = re.compile(r"p\d{1,18}")
_Item = TypeVar("_Item")
_PREFIX = re.compile(r"\s*#?(?:dtensor\.)?layout\s*<")
_FORM = '#dtensor.layout<@mesh, [{"x"}, {}]>'


@dataclass(frozen=True)
class _Token:
    kind: str  # "string", "symbol", "int", "word" or the character itself
    text: str
    position: int


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        match = _PREFIX.match(text)
        if match is None:
            raise LayoutError(f"malformed layout {text.strip()!r}; the form is {_FORM}")
        self.tokens = self._tokens(match.end())
        self.index = 0

    def _tokens(self, position: int) -> list[_Token]:
        tokens = []
        end = len(self.text.rstrip())
        while position < end:
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self.error(f"unexpected {self.text[position]!r}", position)
            kinds = ("string", "symbol", "int", "word", "char")
            kind, text = next(
                (k, g) for k, g in zip(kinds, match.groups(), strict=True) if g is not None
            )
            tokens.append(_Token(text if kind == "char" else kind, text, match.start()))
            position = match.end()
        return tokens

    def error(self, what: str, position: int | None = None) -> LayoutError:
        at = len(self.text) if position is None else position
        return LayoutError(f"malformed layout {self.text.strip()!r}: {what} at column {at + 1}")

    def peek(self) -> str:
        return self.tokens[self.index].kind if self.index < len(self.tokens) else "end"

    def take(self, kind: str, what: str | None = None) -> str:
        if self.peek() != kind:
            have = self.tokens[self.index] if self.index < len(self.tokens) else None
            found = f"found {have.text!r}" if have else "the text ends"
            raise self.error(
                f"expected {what or repr(kind)}, {found}", have.position if have else None
            )
        self.index += 1
        return self.tokens[self.index - 1].text

    def accept(self, kind: str) -> bool:
        if self.peek() != kind:
            return False
        self.index += 1
        return True


def parse_layout(text: str, mesh: Mesh) -> Layout:
    """The layout that `text` writes, on `mesh`; see `Layout.parse`."""
    if not isinstance(text, str):
        raise LayoutError(f"a layout is parsed from text, such as {_FORM}, not from {text!r}")
    if not isinstance(mesh, Mesh):
        raise LayoutError(no_mesh(mesh))
    reader = _Reader(text)
    symbol = reader.take("symbol", "a mesh symbol such as @mesh")[1:].strip('"')
    if symbol != mesh.symbol:
        raise LayoutError(f"layout refers to mesh @{symbol}, but the mesh here is @{mesh.symbol}")
    reader.take(",")
    specs = _list(reader, "[", "]", lambda: _dim(reader, mesh))
    partial: dict[str, list[AxisRef | str]] = {}
    if reader.accept(","):
        word = reader.take("word", "'partial'")
        if word != "partial":
            raise reader.error(f"expected 'partial', found {word!r}")
        reader.take("=")
        for kind, axes in _list(reader, "{", "}", lambda: _reduction(reader)):
            if kind in partial:
                raise reader.error(f"reduction '{kind}' is given twice")
            partial[kind] = axes
    reader.take(">")
    if reader.peek() != "end":
        raise reader.error("text after the closing '>'")
    return Layout(specs, mesh, partial)


def layout_mesh_name(text: str) -> str:
    """The mesh symbol, without `@`, that a layout's written form names."""
    return _Reader(text).take("symbol", "a mesh symbol such as @mesh")[1:].strip('"')


def _list(reader: _Reader, opening: str, closing: str, item: Callable[[], _Item]) -> list[_Item]:
    reader.take(opening)
    items: list[_Item] = []
    if reader.accept(closing):
        return items
    while True:
        items.append(item())
        if reader.accept(closing):
            return items
        reader.take(",")


def _dim(reader: _Reader, mesh: Mesh) -> Dim | tuple[AxisRef | int | str, ...]:
    barred: list[AxisRef | str] = []
    words = [token.text for token in reader.tokens[reader.index : reader.index + 3]]
    if words == ["{", MATCH, "}"]:
        reader.index += 3
        return MATCHED

    def entry() -> AxisRef | int | str:
        if reader.accept("?"):
            while reader.accept("!"):
                barred.append(_axis(reader))
            return OPEN
        if reader.peek() == "int":
            return int(reader.take("int"))
        return _axis(reader)

    digits = tuple(_list(reader, "{", "}", entry))
    if OPEN in digits[:-1]:
        raise reader.error("'?' must come last in a dimension")
    word = reader.take("word") if reader.peek() == "word" else "p0"
    if not _PRIORITY.fullmatch(word):
        raise reader.error(f"expected a priority such as p1, found {word!r}")
    if word == "p0" and not barred:
        return digits
    dim = replace(dims_of([digits], mesh)[0], priority=int(word[1:]))
    return bar(dim, barred, mesh) if barred else dim


def _axis(reader: _Reader) -> AxisRef | str:
    name = reader.take("string", "an axis name in quotes")
    if not reader.accept(":"):
        return name
    reader.take("(")
    pre = int(reader.take("int", "the size before the part"))
    reader.take(")")
    return AxisRef(name, pre, int(reader.take("int", "the size of the part")))


def _reduction(reader: _Reader) -> tuple[str, list[AxisRef | str]]:
    kind = reader.take("word", "a reduction such as sum")
    reader.take(":")
    if reader.peek() == "(":
        return kind, _list(reader, "(", ")", lambda: _axis(reader))
    return kind, [_axis(reader)]
