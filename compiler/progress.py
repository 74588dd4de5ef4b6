"""Signs of life while something takes long: on stderr, and only then."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from dtensor.runtime.clients.environment import PROGRESS

TERMINAL_PAUSE = 1.0  # seconds; there, a line is rewritten each time
LOG_PAUSE = 10.0  # seconds; a log gets a line after so many, and after twice as many each time


@contextlib.contextmanager
def progress(
    what: str | Callable[[], str], stream: TextIO | None = None, pause: float | None = None
) -> Iterator[None]:
    """Within, say that `what` goes on and for how long it has.

    Args:
        what: what is being done, such as "compiling step for tpu:v5e:2x4"; or what says it, asked
            each time, where that changes.
        stream: where to say it; None is stderr.
        pause: seconds before the first word; None chooses by whether the stream is a terminal.
    """
    out = sys.stderr if stream is None else stream
    if out is None or os.environ.get(PROGRESS) == "0":
        yield
        return
    terminal = _is_terminal(out)
    if pause is None:
        pause = TERMINAL_PAUSE if terminal else LOG_PAUSE
    done = threading.Event()
    say = _rewrite if terminal else _log
    asked = (lambda: what) if isinstance(what, str) else what
    thread = threading.Thread(target=say, args=(asked, out, pause, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def phases(what: str, pause: float = 3.0) -> Iterator[Callable[[str], None]]:
    """Within, say on a terminal which phase of `what` goes on; a log is told nothing.

    Args:
        what: what is being done, such as "planning step".
        pause: seconds before the first word.

    Yields:
        What is called with the name of each phase as it begins.
    """
    now = [what]

    def begin(phase: str) -> None:
        now[0] = f"{what}: {phase}"

    quiet = not _is_terminal(sys.stderr)
    with contextlib.nullcontext() if quiet else progress(lambda: now[0], pause=pause):
        yield begin


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sees what is written; a program without a console has no stderr."""
    return stream is not None and not stream.closed and stream.isatty()


def _log(what: Callable[[], str], out: TextIO, pause: float, done: threading.Event) -> None:
    start = time.monotonic()
    while not done.wait(pause):
        out.write(f"dtensor: {_so_far(what, start)}\n")
        out.flush()
        pause *= 2


def _rewrite(what: Callable[[], str], out: TextIO, pause: float, done: threading.Event) -> None:
    start = time.monotonic()
    if done.wait(pause):
        return
    pause = min(pause, TERMINAL_PAUSE)
    try:
        from rich.console import Console
        from rich.markup import escape
    except ImportError:
        while True:
            out.write(f"\r\x1b[Kdtensor: {_so_far(what, start)}")  # the line before is erased
            out.flush()
            if done.wait(pause):
                out.write("\r\x1b[K")
                out.flush()
                return
    # The spinner is of ASCII, which a terminal of any encoding has.
    with Console(file=out).status(escape(_so_far(what, start)), spinner="line") as status:
        while not done.wait(pause):
            status.update(escape(_so_far(what, start)))


def _so_far(what: Callable[[], str], start: float) -> str:
    return f"{what()}, {time.monotonic() - start:.0f} s so far"
