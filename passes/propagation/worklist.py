"""Node numbers waiting to be looked at, taken in sweeps forth and back in program order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class Worklist:
    """Each node waits at most once. What is added ahead of a running sweep joins it."""

    def __init__(self, nodes: int) -> None:
        self._waits = [False] * nodes
        self._later: list[int] = []
        self._heap: list[int] = []
        self._sign = 1
        self._at = 0
        self._sweeping = False

    def add(self, node: int) -> None:
        """Let a node wait."""
        if self._waits[node]:
            return
        self._waits[node] = True
        if self._sweeping and self._sign * node > self._at:
            heapq.heappush(self._heap, self._sign * node)
        else:
            self._later.append(node)

    def sweeps(self, limit: int | None = None) -> Iterator[int]:
        """The waiting nodes, forward, then backward, ... until none wait or `limit` is reached."""
        turn = 0
        while self._later and (limit is None or turn < limit):
            self._sign = 1 if turn % 2 == 0 else -1
            self._heap = [self._sign * node for node in self._later]
            self._later = []
            heapq.heapify(self._heap)
            self._sweeping = True
            while self._heap:
                self._at = heapq.heappop(self._heap)
                node = self._sign * self._at
                self._waits[node] = False
                yield node
            self._sweeping = False
            turn += 1
