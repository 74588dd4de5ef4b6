"""Signs of life while another compiler works: on stderr, and only if it takes long."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

_ON_A_TERMINAL = 1.0  # seconds; there, a line is rewritten each time
_ELSEWHERE = 10.0  # seconds; a log gets a line after so many, and after twice as many each time


@contextlib.contextmanager
def progress(what: str, stream: TextIO | None = None, pause: float | None = None) -> Iterator[None]:
    """Within, say that `what` goes on and for how long it has.

    Args:
        what: what is being done, such as "compiling step for tpu:v5e:2x4".
        stream: where to say it; None is stderr.
        pause: seconds before the first word; None chooses by whether the stream is a terminal.
    """
    out = sys.stderr if stream is None else stream
    terminal = out.isatty()
    if pause is None:
        pause = _ON_A_TERMINAL if terminal else _ELSEWHERE
    done = threading.Event()
    say = _rewrite if terminal else _log
    thread = threading.Thread(target=say, args=(what, out, pause, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _log(what: str, out: TextIO, pause: float, done: threading.Event) -> None:
    start = time.monotonic()
    while not done.wait(pause):
        out.write(f"dtensor: {what}, {time.monotonic() - start:.0f} s so far\n")
        out.flush()
        pause *= 2


def _rewrite(what: str, out: TextIO, pause: float, done: threading.Event) -> None:
    start = time.monotonic()
    if done.wait(pause):
        return
    try:
        from rich.console import Console
        from rich.markup import escape
    except ImportError:
        while True:
            out.write(f"\rdtensor: {what}, {time.monotonic() - start:.0f} s so far")
            out.flush()
            if done.wait(pause):
                out.write("\r\x1b[K")  # back to the first column, and the line is empty again
                out.flush()
                return
    text = escape(what)
    with Console(file=out).status(text) as status:
        while not done.wait(pause):
            status.update(f"{text}, {time.monotonic() - start:.0f} s so far")
