"""A lower bound of every plan's cost, and which states are promising, by passing messages.

Sequential tree-reweighted message passing (TRW-S; Kolmogorov 2006, "Convergent tree-reweighted
message passing for energy minimization"): variables are visited forwards and backwards in program
order; each tells its neighbours what every one of their states would cost it. The bound never
falls from pass to pass; on a chain it is exact after one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dtensor.passes.planning.model import Costs


class Messages:
    """Messages between the variables of a model whose tables are over pairs.

    Attributes:
        bound: no assignment of states costs less.
        floor: the bound before the last pass.
        scores: per variable and state, what the cheapest assignment with it costs above the floor,
            at least; near the end, about that.
    """

    def __init__(self, unary: Mapping[int, Costs], tables: Mapping[tuple[int, ...], Costs]) -> None:
        self.bound = self.floor = -np.inf
        self.scores: dict[int, Costs] = {x: np.zeros(len(u)) for x, u in unary.items()}
        self._unary = unary
        self._order = sorted(unary)
        # Per variable `(neighbour, table with a row per state of the variable)`.
        self._before: dict[int, list[tuple[int, Costs]]] = {x: [] for x in unary}
        self._after: dict[int, list[tuple[int, Costs]]] = {x: [] for x in unary}
        self._sent: dict[tuple[int, int], Costs] = {}
        for (one, other), table in sorted(tables.items()):
            self._after[one].append((other, np.ascontiguousarray(table)))
            self._before[other].append((one, np.ascontiguousarray(table.T)))
            self._sent[one, other] = np.zeros(table.shape[1])
            self._sent[other, one] = np.zeros(table.shape[0])

    def run(self, passes: int, upper: float, gap: float) -> None:
        """Pass messages there and back until the bound is near `upper`, `passes` times at most."""
        for _ in range(passes):
            self._sweep(self._order, self._before, self._after)
            self._sweep(self._order[::-1], self._after, self._before)
            if upper - self.bound <= gap * abs(upper):
                break

    def _sweep(
        self,
        order: Sequence[int],
        behind: Mapping[int, list[tuple[int, Costs]]],
        ahead: Mapping[int, list[tuple[int, Costs]]],
    ) -> None:
        sent, bound = self._sent, 0.0
        for x in order:
            total = self._unary[x]
            for y, _ in behind[x]:
                total = total + sent[y, x]
            for y, _ in ahead[x]:
                total = total + sent[y, x]
            least = total.min()
            self.scores[x] = total - least
            out = len(ahead[x])
            chains = max(len(behind[x]), out, 1)
            bound += least * (chains - out) / chains  # of the chains that end here
            share = total / chains
            for y, table in ahead[x]:
                sent[x, y] = (table + (share - sent[y, x])[:, None]).min(0)
        self.floor, self.bound = self.bound, max(self.bound, float(bound))
