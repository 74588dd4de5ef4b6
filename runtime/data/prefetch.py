"""Prefetching: a thread that reads a few items ahead of whoever uses them.

The thread keeps no reference to the `Prefetcher`, so that one which nobody holds any more ends its
thread, and it is a daemon that is asked to end before the interpreter does, so that an item which
never arrives cannot keep the process alive.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from dtensor.runtime.data.elements import canonical_dtype

T = TypeVar("T")

_CLOSE_SECONDS = 10.0  # how long close() waits for an item that is being read
_EXIT_SECONDS = 10.0  # and the end of the interpreter, for all threads together
_LOOK_SECONDS = 1.0  # how often who waits looks by itself: a notice may come just before the wait


class _Shared:
    """What the thread and its user share; its lock may be taken again by the same thread.

    That is because the garbage collector, and with it `stop`, may run in the middle of the others.
    """

    def __init__(self, ahead: int) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.items: deque[Any] = deque()
        self.free = ahead
        self.is_stopped = False
        self.has_ended = False
        self.error: BaseException | None = None

    def stop(self) -> None:
        with self.changed:
            self.is_stopped = True
            self.changed.notify_all()

    def wait_to_read(self) -> bool:
        with self.changed:
            while self.free == 0 and not self.is_stopped:
                self.changed.wait(_LOOK_SECONDS)
            self.free -= 1
            return not self.is_stopped

    def put(self, item: Any) -> None:
        with self.changed:
            self.items.append(item)
            self.changed.notify_all()

    def end(self, error: BaseException | None) -> None:
        with self.changed:
            self.error, self.has_ended = error, True
            self.changed.notify_all()


_running: dict[threading.Thread, _Shared] = {}


class Prefetcher(Generic[T]):
    """The same items, of which up to `ahead` are read before they are asked for.

    Args:
        items: the items; only the thread uses them, and it closes them at the end.
        ahead: how many items may be read and not yet taken, at least 1.
    """

    def __init__(self, items: Iterator[T], ahead: int) -> None:
        self._shared = _Shared(ahead)
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
        shared = self._shared
        with shared.changed:
            while not (shared.items or shared.has_ended or shared.is_stopped):
                if not self._thread.is_alive():
                    raise RuntimeError(
                        "the thread that reads ahead is gone; a process that was forked must make "
                        "its own iterator"
                    )
                shared.changed.wait(_LOOK_SECONDS)
            if shared.items and not shared.is_stopped:
                shared.free += 1
                shared.changed.notify_all()
                item: T = shared.items.popleft()
                return item
            error, shared.error = shared.error, None
        if error is None:
            raise StopIteration
        try:
            raise error
        finally:
            del error  # its traceback names this frame: a cycle would keep what the frames hold

    def close(self) -> bool:
        """End the thread.

        Returns:
            Whether it has ended; it has not where the item being read takes longer than 10 s, and
            ends after that item.
        """
        self._stop()
        with self._shared.changed:
            self._shared.items.clear()
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)
        return not self._thread.is_alive()


def _read(shared: _Shared, items: Iterator[Any], x64: bool) -> None:
    try:
        with jax.enable_x64(x64):
            _read_all(shared, items)
    finally:
        _running.pop(threading.current_thread(), None)


def _read_all(shared: _Shared, items: Iterator[Any]) -> None:
    error: BaseException | None = None
    try:
        while shared.wait_to_read():
            try:
                item = next(items)
            except StopIteration:
                break
            shared.put(item)
            del item  # a batch that was taken is not kept alive from here
    except BaseException as found:
        error = found
    try:
        close = getattr(items, "close", None)
        if callable(close):
            close()
    except BaseException as found:
        error = error or found
    shared.end(error)


def _end_all() -> None:
    running = list(_running.items())
    for _, shared in running:
        shared.stop()
    deadline = time.monotonic() + _EXIT_SECONDS
    for thread, _ in running:
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_end_all)
