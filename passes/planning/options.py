"""What a node may choose among: one strategy, what it sends inside, and all of them as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Strategy(NamedTuple):
    """One way to lay a node out.

    Attributes:
        ins: spec of each operand.
        outs: spec of each result.
        split: among how many devices the node's work is divided.
        comm: seconds that the op's algorithm communicates inside, per execution.
        price: seconds that the search counts beside these: of work that is repeated though it could
            be divided, of memory. They are no part of what a plan takes.
    """

    ins: tuple[int, ...]
    outs: tuple[int, ...]
    split: int
    comm: float = 0.0
    price: float = 0.0


Exchange = tuple[tuple[int, ...], float]  # `Traffic.what`, and its seconds


class Computed(NamedTuple):
    """What the algorithm of an op sends in one strategy.

    Attributes:
        comm: its seconds, per execution.
        exchanges: those with which it begins that other ops may share.
    """

    comm: float
    exchanges: tuple[Exchange, ...]


class Options:
    """The strategies of a node, also as arrays: `ins[k][i]` is operand k's spec in strategy i."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        self.strategies = tuple(strategies)
        self.index = {s: i for i, s in enumerate(self.strategies)}
        self.ins = _columns([s.ins for s in self.strategies])
        self.outs = _columns([s.outs for s in self.strategies])
        self.share = 1.0 / np.array([s.split for s in self.strategies], float)
        self.extra = np.array([s.comm + s.price for s in self.strategies], float)
        self._distinct: dict[int, NDArray[np.intp]] = {}

    def __len__(self) -> int:
        return len(self.strategies)

    def column(self, slot: int) -> NDArray[np.intp]:
        """The specs of operand `slot`, or of result `~slot` if negative."""
        return self.ins[slot] if slot >= 0 else self.outs[~slot]

    def distinct(self, slot: int) -> NDArray[np.intp]:
        """The different specs of a column, ascending."""
        found = self._distinct.get(slot)
        if found is None:
            found = self._distinct[slot] = np.unique(self.column(slot))
        return found


def _columns(rows: Sequence[tuple[int, ...]]) -> list[NDArray[np.intp]]:
    return [np.array(column, np.intp) for column in zip(*rows, strict=True)]
