"""Reading ahead: a thread that makes a few items before they are asked for.

A daemon, and none of concurrent.futures, for which Python waits before anything that is registered
with atexit: a client that fails while its source is stuck would not tell the others (`losses.py`).
grain's `ThreadPrefetchIterDataset` (0.2.18) leaves its user waiting for ever when the source ends
the thread, as sys.exit does, or does not come back while it is being closed.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from collections.abc import Generator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import jax
import numpy as np

_SECONDS = 10.0  # how long close() and the end of the program wait for an item that is being made
_NAME = "dtensor-prefetch"


class ReadAhead:
    """The items of a generator, of which a thread makes at most so many ahead.

    What is raised while an item is made is raised where it is asked for. The thread, which has no
    reference to this object, ends when this is closed, or unused, or the program ends.
    """

    def __init__(self, items: Generator[Any, None, None], ahead: int) -> None:
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._made: SimpleQueue[list[Any] | BaseException] = SimpleQueue()
        self._process = os.getpid()
        x64 = jax.dtypes.canonicalize_dtype(np.int64) == np.int64  # may be this thread's alone
        args = (items, ahead, self._asked, self._made, x64)
        self._thread = threading.Thread(target=_make, args=args, name=_NAME, daemon=True)
        weakref.finalize(self, _stop, self._asked).atexit = False
        _open.add(self)
        self._thread.start()

    def __next__(self) -> Any:
        if self._process != os.getpid():
            raise RuntimeError(
                "the thread that reads ahead is gone: a forked process must make its own iterator"
            )
        self._asked.put(True)
        found = self._made.get()
        if found == []:
            raise StopIteration
        if isinstance(found, list):
            return found.pop()
        try:
            raise found
        finally:
            del found  # its traceback names this frame: a cycle would keep what the frames hold

    def close(self) -> bool:
        """End the thread, which closes the generator; says whether it has ended within 10 s.

        If not, it ends after the item that is being made.
        """
        _stop(self._asked)
        self._thread.join(_SECONDS)
        return not self._thread.is_alive()


_open: weakref.WeakSet[ReadAhead] = weakref.WeakSet()


def _make(
    items: Generator[Any, None, None],
    ahead: int,
    asked: SimpleQueue[bool],
    made: SimpleQueue[Any],
    x64: bool,
) -> None:
    try:
        with jax.enable_x64(x64):
            while True:
                if ahead > 0 and asked.empty():
                    ahead -= 1
                elif not asked.get():
                    break
                item = list(itertools.islice(items, 1))
                ahead = ahead if item else 0
                made.put(item)
        items.close()
    except BaseException as error:
        made.put(error)


def _stop(asked: SimpleQueue[bool]) -> None:
    with suppress(Empty):
        while True:
            asked.get_nowait()
    asked.put(False)


@atexit.register
def _end_all() -> None:
    for reader in list(_open):
        _stop(reader._asked)
    for thread in threading.enumerate():  # those too whose reader is gone: they may be computing
        if thread.name == _NAME:
            thread.join(_SECONDS)
