"""Reading `builtin.module(dtensor-propagate{max-sweeps=4}, canonicalize, func.func(cse))`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dtensor.dialect.errors import CompileError

_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_OPTION = re.compile(r'\s*([A-Za-z][\w\-]*)(?:=(\{[^}]*\}|"[^"]*"|[^\s{}"]+))?')


class PipelineError(CompileError):
    """A pipeline that cannot be read, or that names what does not exist.

    Attributes:
        text: the pipeline.
        position: index of the character that is wrong.
    """

    def __init__(self, text: str, position: int, message: str) -> None:
        self.text = text
        self.position = position
        self.message = message
        caret = " " * position + "^"
        super().__init__(f"pass pipeline:{position + 1}: {message}\n  {text}\n  {caret}")


@dataclass(frozen=True)
class Entry:
    """One name in a pipeline: a pass, or an anchor with passes inside."""

    name: str
    position: int
    options: dict[str, str] = field(default_factory=dict)
    option_text: str = ""
    inner: tuple[Entry, ...] | None = None


def parse_pipeline(text: str) -> tuple[Entry, ...]:
    """The entries that `text` lists.

    Raises:
        PipelineError: it is malformed; the position says where.
    """
    reader = _Reader(text)
    entries = reader.entries()
    if reader.at < len(text):
        raise reader.error(f"unexpected {text[reader.at]!r}; separate passes by ','")
    return entries


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def error(self, message: str, position: int | None = None) -> PipelineError:
        return PipelineError(self.text, self.at if position is None else position, message)

    def skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def next_is(self, character: str) -> bool:
        self.skip_space()
        if not self.text.startswith(character, self.at):
            return False
        self.at += 1
        return True

    def entries(self) -> tuple[Entry, ...]:
        self.skip_space()
        if self.at == len(self.text) or self.text[self.at] == ")":
            return ()
        found = [self.entry()]
        while self.next_is(","):
            found.append(self.entry())
        self.skip_space()
        return tuple(found)

    def entry(self) -> Entry:
        self.skip_space()
        match = _NAME.match(self.text, self.at)
        if match is None:
            found = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
            raise self.error(f"expected the name of a pass, found {found}")
        position, self.at = self.at, match.end()
        option_text = self.braces() if self.next_is("{") else ""
        options = self.options(option_text, position)
        inner = None
        opening = self.at
        if self.next_is("("):
            inner = self.entries()
            if not self.next_is(")"):
                raise self.error("'(' is never closed; add ')'", opening)
        return Entry(match.group(), position, options, option_text, inner)

    def braces(self) -> str:
        start, depth = self.at, 1
        while depth:
            if self.at >= len(self.text):
                raise self.error("'{' is never closed; add '}'", start - 1)
            depth += {"{": 1, "}": -1}.get(self.text[self.at], 0)
            self.at += 1
        return self.text[start : self.at - 1].strip()

    def options(self, text: str, position: int) -> dict[str, str]:
        options: dict[str, str] = {}
        at = 0
        while at < len(text):
            match = _OPTION.match(text, at)
            if match is None:
                raise self.error(f"malformed options '{text}'; write {{name=value ...}}", position)
            name, value = match.groups()
            if name in options:
                raise self.error(f"option '{name}' is given twice; give it once", position)
            options[name] = "true" if value is None else value.strip('"')
            at = match.end()
        return options
