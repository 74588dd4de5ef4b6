"""Reading ahead: a thread that makes a few items before they are asked for."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import jax
import numpy as np

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """The items of a generator, of which a thread makes at most so many ahead.

    What is raised while an item is made is raised where it is asked for. The thread ends when this
    is closed, or unused, or the program ends, after the items that it makes ahead: a source that
    never returns keeps it, and with it the program, from ending.
    """

    def __init__(self, items: Generator[T, None, None], ahead: int) -> None:
        self._items = items
        self._process = os.getpid()
        self._x64 = jax.dtypes.canonicalize_dtype(np.int64) == np.int64  # maybe this thread's alone
        self._pool = ThreadPoolExecutor(1, "dtensor-prefetch")
        self._made = deque([self._pool.submit(self._make) for _ in range(ahead)])

    def __next__(self) -> T:
        if self._process != os.getpid():
            raise RuntimeError(
                "the thread that reads ahead is gone; a process that was forked must make its own "
                "iterator"
            )
        self._made.append(self._pool.submit(self._make))
        found = self._made.popleft().result()
        if not found:
            raise StopIteration
        return found.pop()  # neither the list nor the future keep it alive

    def _make(self) -> list[T]:
        with jax.enable_x64(self._x64):
            return list(itertools.islice(self._items, 1))

    def close(self) -> None:
        """End the thread and close the generator, after the item that is being made."""
        for future in self._made:
            future.cancel()
        self._pool.submit(self._items.close)
        self._pool.shutdown()
