"""Prefetching: a thread that reads a few items ahead of whoever uses them.

Own code, because grain's `ThreadPrefetchIterDataset` (0.2.18) leaves its user waiting for ever when
the source ends the thread, as sys.exit does, or does not come back while it is being closed.

The thread keeps no reference to the `Prefetcher`, so that one which nobody holds any more ends its
thread, and it is a daemon that is asked to end before the interpreter does, so that an item which
never arrives cannot keep the process alive.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from dtensor.runtime.data.elements import canonical_dtype

T = TypeVar("T")

_CLOSE_SECONDS = 10.0  # how long close() waits for an item that is being read
_EXIT_SECONDS = 10.0  # and the end of the interpreter, for all threads together


class _Shared:
    """What the thread and its user share: queues, into which the garbage collector may put as well.

    Attributes:
        free: one entry for each item that may be read.
        found: items, each in a tuple; at the end the error, or None.
    """

    def __init__(self, ahead: int) -> None:
        self.free: SimpleQueue[None] = SimpleQueue()
        self.found: SimpleQueue[tuple[Any] | BaseException | None] = SimpleQueue()
        self.is_stopped = False
        for _ in range(ahead):
            self.free.put(None)

    def stop(self) -> None:
        self.is_stopped = True
        self.free.put(None)
        self.found.put(None)

    def may_read(self) -> bool:
        self.free.get()
        return not self.is_stopped


_running: dict[threading.Thread, _Shared] = {}


class Prefetcher(Generic[T]):
    """The same items, of which up to `ahead` are read before they are asked for.

    Args:
        items: the items; only the thread uses them, and it closes them at the end.
        ahead: how many items may be read and not yet taken, at least 1.
    """

    def __init__(self, items: Iterator[T], ahead: int) -> None:
        self._shared = _Shared(ahead)
        self._process = os.getpid()
        x64 = canonical_dtype(np.dtype(np.int64)).itemsize == 8  # may be this thread's alone
        self._thread = threading.Thread(
            target=_read, args=(self._shared, items, x64), name="dtensor-prefetch", daemon=True
        )
        _running[self._thread] = self._shared
        self._stop = weakref.finalize(self, self._shared.stop)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._process != os.getpid():
            raise RuntimeError(
                "the thread that reads ahead is gone; a process that was forked must make its own "
                "iterator"
            )
        found = self._shared.found.get()
        if isinstance(found, tuple) and not self._shared.is_stopped:
            self._shared.free.put(None)
            item: T = found[0]
            return item
        self._shared.found.put(None)  # for the next time
        if not isinstance(found, BaseException):
            raise StopIteration
        try:
            raise found
        finally:
            del found  # its traceback names this frame: a cycle would keep what the frames hold

    def close(self) -> bool:
        """End the thread.

        Returns:
            Whether it has ended; it has not where the item being read takes longer than 10 s, and
            ends after that item.
        """
        self._stop()
        try:
            while True:
                self._shared.found.get_nowait()
        except Empty:
            self._shared.found.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)
        return not self._thread.is_alive()


def _read(shared: _Shared, items: Iterator[Any], x64: bool) -> None:
    error: BaseException | None = None
    try:
        with jax.enable_x64(x64):
            error = _read_all(shared, items)
    finally:
        _running.pop(threading.current_thread(), None)
        shared.found.put(error)


def _read_all(shared: _Shared, items: Iterator[Any]) -> BaseException | None:
    error: BaseException | None = None
    try:
        while shared.may_read():
            try:
                item = next(items)
            except StopIteration:
                break
            shared.found.put((item,))
            del item  # a batch that was taken is not kept alive from here
    except BaseException as found:
        error = found
    try:
        close = getattr(items, "close", None)
        if callable(close):
            close()
    except BaseException as found:
        error = error or found
    return error


def _end_all() -> None:
    running = list(_running.items())
    for _, shared in running:
        shared.stop()
    deadline = time.monotonic() + _EXIT_SECONDS
    for thread, _ in running:
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_end_all)
