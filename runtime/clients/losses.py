"""What jax's heartbeats leave open when a client is lost: who failed, and that client 0 is silent.

jax finds a client that was killed, stopped or cut off, and aborts the others with its number. Its
heartbeats are C++ threads, so a client that holds the interpreter is not taken for a lost one. Own
code is a thread in each client for what jax does not end within 15 s with a name; the seconds are
those of benchmarks/faults.py, for jax alone with heartbeats of 10 s:

- A client fails with an exception, or ends with `sys.exit` of another status than 0: it waits for
  the others at jax's exit, and they for it in their collective; all were still there after 150 s.
  Here it says so in jax's key-value store.
- Client 0, which holds jax's service, is stopped or cut off: the others end after 12 s with
  DEADLINE_EXCEEDED, which names nobody. Here they ask it whether it still answers.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import time
from contextlib import suppress
from types import TracebackType

import jax

from dtensor.dialect.errors import ClientError
from dtensor.runtime.clients import coordination
from dtensor.runtime.clients.agreement import ENDED
from dtensor.runtime.clients.environment import PEER_LOST, Seat, client_name
from dtensor.runtime.clients.exits import Exit, hear_exit
from dtensor.runtime.clients.waits import Waits

HEARTBEAT_SECONDS = 13  # after so many silent ones jax gives up a client, and ends the others

_FAILED, _ALIVE = "dtensor/failed", "dtensor/alive"
# How long each question waits for its answer. Two in a row that client 0 leaves open are less than
# half a heartbeat, after which jax itself ends this process.
_FAILED_SECONDS, _ALIVE_SECONDS, _SILENCES = 1.0, 2.2, 2
_HEARD_SECONDS = 1.0  # for the others to hear it too, before client 0 ends, and the service with it
# How errors begin that a collective raises when one of its clients is gone, of several classes.
_BROKEN = "(ABORTED|CANCELLED|DEADLINE_EXCEEDED|FAILED_PRECONDITION|INTERNAL|UNAVAILABLE|UNKNOWN): "
_VERDICT_SECONDS = HEARTBEAT_SECONDS + 5.0


class Watch:
    """Says how this client ends; with `heartbeat`, ends it when another one is lost.

    A process that the client forks is none: it ends as it likes.
    """

    def __init__(self, seat: Seat, heartbeat: bool) -> None:
        self._seat = seat
        self._pid = os.getpid()
        self._waits = Waits(seat)
        self._failure: BaseException | None = None
        self._left = False
        self._thread = threading.Thread(target=self._listen, name="dtensor-losses", daemon=True)
        atexit.register(self.leave)  # runs before jax's own, which waits for the others
        if not heartbeat:
            return
        if seat.index == 0:
            with coordination.store() as store:
                store.key_value_set(_ALIVE, "")
        previous = sys.excepthook

        def note(
            kind: type[BaseException], value: BaseException, trace: TracebackType | None
        ) -> None:
            self._failure = value
            previous(kind, value, trace)

        sys.excepthook = note
        hear_exit(self._note_exit)
        self._thread.start()

    def _note_exit(self, exit: Exit) -> None:
        if exit.status:
            self._failure = exit

    def leave(self) -> None:
        """Disconnect this client, which ends as it should; at a failure end the process."""
        if os.getpid() != self._pid:
            coordination.abandon()
            return
        if self._left:
            return
        self._left = True
        if self._failure is not None and not hasattr(sys, "ps1"):
            self._fail(self._failure)
        with suppress(ClientError), coordination.store() as store:  # jax ends us when it notices
            store.key_value_set(f"{ENDED}/{self._seat.index}", "")
        with coordination.store():
            jax.distributed.shutdown()  # waits for the others, and ends what the thread waits for
        if self._thread.is_alive():
            self._thread.join()

    def _fail(self, failure: BaseException) -> None:
        if self._is_of_jax():
            # It may come from the loss of another client: then jax ends this one, and says which.
            time.sleep(_VERDICT_SECONDS)
        text = f"{type(failure).__name__}: {failure}"
        if isinstance(failure, Exit):
            text = failure.text
        text = text.strip().splitlines()[0].removesuffix(":")
        with suppress(ClientError), coordination.store() as store:  # another one failed before
            store.key_value_set(_FAILED, f"{self._seat.index} it failed with {text}")
        if self._seat.index == 0:
            time.sleep(_HEARD_SECONDS)
        _flush()
        # Not to jax's barrier at exit: the others do not come there.
        status = failure.status if isinstance(failure, Exit) else 1
        os._exit(130 if isinstance(failure, KeyboardInterrupt) else status)

    def _is_of_jax(self) -> bool:
        return re.match(_BROKEN, str(self._failure)) is not None

    def _listen(self) -> None:
        silences = 0
        while True:
            said, why = coordination.ask(_FAILED, _FAILED_SECONDS)
            if said is not None:
                number, _, text = said.partition(" ")
                return self._end(int(number), text)
            if why == coordination.NO_ANSWER:
                answered = coordination.ask(_ALIVE, _ALIVE_SECONDS)[0] is not None
                silences = 0 if answered else silences + 1
                if silences == _SILENCES:
                    return self._end(0, f"it left {_SILENCES} questions in a row open")
                if answered:
                    self._waits.look(self._left)
            elif self._left or why == coordination.CANCELLED:
                return None
            else:
                return self._end(0, "it was killed, or lost its connection")

    def _end(self, lost: int, why: str) -> None:
        own_failure = self._failure is not None and not self._is_of_jax()
        if lost != self._seat.index and not own_failure:  # which it has said itself
            name, other = client_name(self._seat.index), client_name(lost)
            os.write(2, f"dtensor: {name} ends, because {other} is lost: {why}\n".encode())
            # Not sys.exit: the main thread may never return from where it is.
            flush = threading.Thread(target=_flush, daemon=True)
            flush.start()
            flush.join(1.0)
            if self._seat.index == 0:
                time.sleep(_HEARD_SECONDS)
            os._exit(PEER_LOST)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
