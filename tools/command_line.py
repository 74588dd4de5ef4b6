"""Command lines of our tools: errors are raised, and help is printed as it is written."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import NoReturn

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import CompileError, MeshError
from dtensor.dialect.mesh import Mesh


class UsageError(CompileError):
    """A command line that cannot be followed."""


class CommandLine(argparse.ArgumentParser):
    """argparse that raises instead of exiting with status 2.

    Args:
        prog: name of the tool.
        description: what it does.
        epilog: examples.
        usage: how it is called; None is what argparse makes of the flags.
    """

    def __init__(self, prog: str, description: str, epilog: str, usage: str | None = None) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong, and where to read more."""
        raise UsageError(f"{message}{self._meant_by(message)}; see {self.prog} --help")

    def _meant_by(self, message: str) -> str:
        """`; did you mean '--verify'?`, of a flag that argparse does not know."""
        _, found, words = message.partition("unrecognized arguments: ")
        flag = words.split(" ")[0].partition("=")[0]
        if not found or not flag.startswith("-"):
            return ""
        return did_you_mean(flag, list(self._option_string_actions), listed=False)


def open_streams() -> None:
    """Give a process that was started with a closed stream one that has nothing and takes all."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


def parse_mesh(text: str) -> Mesh:
    """The mesh that `x=2,y=4` writes.

    Raises:
        UsageError: it is not of that form.
    """
    axes = []
    for part in text.split(","):
        name, equals, size = part.partition("=")
        if not equals or re.fullmatch(r"\s*\d{1,18}\s*", size) is None:
            raise UsageError(f"--mesh '{text}': '{part}' is no axis; the form is x=2,y=4")
        axes.append((name.strip(), int(size)))
    try:
        return Mesh(axes)
    except MeshError as wrong:
        raise UsageError(f"--mesh '{text}': {wrong}") from None
