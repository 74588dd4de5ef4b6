"""Says that clients seem to wait for one another: one at its end, another inside a program.

Either may be right to wait, for a slow client; where one has called a program that the other has
not, nothing ends them before jax's service does. So each says after a while where it is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import jax

from dtensor.dialect.errors import ClientError
from dtensor.runtime.clients import agreement, environment
from dtensor.runtime.clients.environment import Seat, client_name, client_names

PATIENCE_SECONDS = 10.0  # how long a client stays where it is before it says so

_OWN = (str(Path(__file__).parents[2]), str(Path(jax.__file__).parent))
_REMEDY = "all clients must call the same programs, also those that do not need the results"


class Waits:
    """Where a client stands since when, while others have ended or it has."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._place, self._since = "", 0.0
        self._is_said = False

    def look(self, has_left: bool) -> None:
        """Say on stderr where this client is, if it is there for long; to be called now and then.

        Args:
            has_left: whether this client has come to its end.
        """
        if self._is_said:
            return
        with suppress(ClientError):
            ended = agreement.ended_clients()
            others = [n for n in range(self._seat.count) if n != self._seat.index]
            late = [n for n in others if n not in ended]
            gone = [n for n in others if n in ended]
            if late and has_left:
                self._stand("its end", f"has ended and waits for {client_names(late)}")
            elif gone and not has_left:
                place = _place()
                has_been = f"has been at {place} for {PATIENCE_SECONDS:g} s"
                self._stand(place, f"{has_been}, and {client_names(gone)} ended before it")

    def _stand(self, place: str, said: str) -> None:
        now = time.monotonic()
        if place != self._place:
            self._place, self._since = place, now
        if now - self._since < PATIENCE_SECONDS:
            return
        self._is_said = True
        wait = f"ended clients wait {environment.client_timeout():g} s for the others"
        name = client_name(self._seat.index)
        os.write(2, f"dtensor: {name} {said}; {wait}; {_REMEDY}\n".encode())


def _place() -> str:
    """The line at which the main thread is, of the user's program."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    at = "an unknown line"
    while frame is not None:
        file = frame.f_code.co_filename
        at = f"{file}:{frame.f_lineno}"
        if not file.startswith(_OWN):
            break
        frame = frame.f_back
    return at
