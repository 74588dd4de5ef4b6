"""Command lines of our tools: how they are read, and how a tool ends."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import CompileError, DTensorError, MeshError
from dtensor.dialect.mesh import Mesh

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

INTERRUPTED = 130
"""The exit status after Ctrl-C."""


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

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Write the help; argparse's own passes over an output that cannot be written."""
        (file or sys.stdout).write(self.format_help())

    def _meant_by(self, message: str) -> str:
        """`; did you mean '--verify'?`, of a flag that argparse does not know."""
        _, found, words = message.partition("unrecognized arguments: ")
        flag = words.split(" ")[0].partition("=")[0]
        if not found or not flag.startswith("-"):
            return ""
        return did_you_mean(flag, list(self._option_string_actions), listed=False)


def open_streams() -> None:
    """Make the standard streams take whatever a tool writes.

    A closed stream for output becomes one that drops all. A character that a stream cannot write
    becomes its escape, as of a file's name in the C locale. A closed stdin stays None, so that
    `read_input` can tell; another file must not get its number.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def file_name(text: str) -> str:
    """A file's name on the command line, which argparse refuses if it is empty."""
    if not text:
        raise argparse.ArgumentTypeError("the name of the file is empty; - is stdin or stdout")
    return text


def read_input(file: str) -> bytes:
    """The bytes of a file, or of stdin, which is called `-`.

    Raises:
        OSError: it cannot be read.
        UsageError: stdin is closed.
    """
    if file != "-":
        return Path(file).read_bytes()
    if sys.stdin is None:
        raise UsageError("there is no input: stdin is closed; name a file, or write a module to it")
    return sys.stdin.buffer.read()


def carry_out(
    tool: str, work: Callable[[], int], debug: bool, told: Callable[[Exception], str]
) -> int:
    """The exit status of a tool's work; of what fails, one line is written.

    Args:
        tool: its name.
        work: what it does; returns the exit status.
        debug: whether to write tracebacks as well.
        told: the line for an exception that is neither the user's error nor the system's.

    Returns:
        That of `work`, also where the reader of the output, such as `head`, has seen enough; 1
        after an error, 130 after Ctrl-C.
    """
    status = 0
    try:
        try:
            status = work()
        except SystemExit as done:  # argparse after --help
            status = int(done.code or 0)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        discard_output()
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return status
    except (DTensorError, OSError) as wrong:
        _complain(f"{tool}: error: {_said(wrong)}", wrong, debug)
    except Exception as wrong:  # the border: users see one line, not a traceback
        _complain(told(wrong), wrong, debug)
    discard_output()
    return 1


def internal_error(bug: BaseException) -> str:
    """What to write of an exception that is our bug."""
    notes = "".join(f", {note}" for note in getattr(bug, "__notes__", ()))
    what = f"{type(bug).__name__}: {bug}".split("\n", 1)[0]
    return (
        f"internal error{notes}: {what}; this is a bug in dtensor, not in your program: "
        "--debug shows the traceback, please report it"
    )


def _said(wrong: Exception) -> str:
    if not isinstance(wrong, OSError):
        return str(wrong)
    file = f"{wrong.filename}: " if wrong.filename else ""
    return f"{file}{wrong.strerror or wrong}"


def _complain(message: str, failure: BaseException, debug: bool) -> None:
    try:
        if debug:
            traceback.print_exception(failure)
        print(message, file=sys.stderr)
    except OSError:
        discard_output()


def discard_output() -> None:
    """Let nothing fail any more that is still to be flushed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


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
