"""A lower bound of every plan's cost, and which states are promising, by passing messages.

Sequential tree-reweighted message passing (TRW-S; Kolmogorov 2006, "Convergent tree-reweighted
message passing for energy minimization", IEEE PAMI 28(10)): variables are visited forwards and
backwards in program order; each tells its neighbours what every one of their states would cost it.
On a chain the bound is exact after one pass. Two things differ from the paper, as its messages
fade at values with several users:

- A variable hands all that it knows on to those ahead, in equal shares; nothing stays behind.
- Each pass begins with messages that go on as they changed in the last one (the momentum of
  Nesterov 1983, "A method for solving the convex programming problem with convergence rate
  O(1/k^2)"). Any messages give a bound, but it may fall from pass to pass: the best one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.model import Costs

_STALL = 2e-6  # of the bound; a pass that raises it by less is idle
_PATIENCE = 6  # idle passes in a row, and no more follow
_DROP = 4  # passes after which states that are too dear are dropped
_ROUNDING = 1e-6  # of the cost
_LEAP = 0.5  # of the gap; a message does not go on by more
_MET = 1e-9  # of the cost; a bound as near as that is met
_LEAST_COST = 1e-30  # of a model's costs; what costs less is compared with this

least_of = np.minimum.reduce  # along the first dimension; `min` itself asks first what it is given

Tables = dict[int, dict[int, Costs]]  # by variable and neighbour: a row per state of the variable


class Messages:
    """Messages between the variables of a model whose tables are over pairs.

    Attributes:
        bound: no assignment of states costs less; never more than `upper`.
        floor: what the present messages proved before the last sweep.
        alive: per variable, the states that are left: the others cost more than `upper`.
        least: the cost of `states`.
        states: the cheapest assignment met, if passes look for one.
    """

    def __init__(
        self,
        unary: Mapping[int, Costs],
        tables: Mapping[tuple[int, ...], Costs],
        upper: float = np.inf,
    ) -> None:
        self.upper = upper
        self.bound = self.floor = self._proved = -np.inf
        self.least = np.inf
        self.states: dict[int, int] = dict.fromkeys(unary, 0)
        self.alive: dict[int, NDArray[np.intp]] = {x: np.arange(len(u)) for x, u in unary.items()}
        self._passes = 0
        self._given = unary, tables
        self._unary = dict(unary)
        self._total = dict(unary)  # per state, with all that was heard
        self._order = sorted(unary)
        self._before: Tables = {x: {} for x in unary}
        self._after: Tables = {x: {} for x in unary}
        # By receiver and sender, what a state of the receiver costs the sender and those behind it.
        self._heard: Tables = {x: {} for x in unary}
        self._last: Tables = {x: {} for x in unary}  # what was heard from ahead a pass before
        for (one, other), table in sorted(tables.items()):
            self._after[one][other] = long_rows(table)
            self._before[other][one] = self._after[one][other].T
            self._heard[one][other] = self._last[one][other] = np.zeros(table.shape[0])
            self._heard[other][one] = np.zeros(table.shape[1])

    @property
    def scores(self) -> dict[int, Costs]:
        """Per state that is left, what the cheapest assignment with it costs above the floor.

        That is at least so much; near the end, about that.
        """
        return {x: total - least_of(total) for x, total in self._total.items()}

    @property
    def gap(self) -> float:
        """By how much the bound is below `upper`, of `upper`."""
        return float((self.upper - self.bound) / max(abs(self.upper), _LEAST_COST))

    def run(self, passes: int, gap: float, looks: bool = False) -> int:
        """Pass messages there and back until the bound stops to rise.

        Args:
            passes: how often at most.
            gap: of the cost; when the bound is as near as that to `upper`, it is near enough.
            looks: whether to look for a cheap assignment in each pass, which may lower `upper`.

        Returns:
            How often messages were passed.
        """
        idle = count = 0
        while count < passes and idle < _PATIENCE:
            count += 1
            before = self.bound
            if looks and count % 2:
                self._look(self._order, self._before, self._after)
            self._sweep(self._order, self._before, self._after)
            if looks and not count % 2:
                self._look(self._order[::-1], self._after, self._before)
            self._sweep(self._order[::-1], self._after, self._before)
            self._go_on((self._passes + 1) / (self._passes + 4))
            self._passes += 1
            idle = idle + 1 if self.bound - before <= _STALL * abs(self.bound) else 0
            self.upper = min(self.upper, self.least)
            if self.gap <= gap:
                break
            if count % _DROP == 0 and not self._drop():
                break
        self.bound = min(self.bound, self.upper)
        return count

    def narrow(self, share: float, states: Mapping[int, int]) -> set[int]:
        """Keep the states that score no more than a share of the bound, and these.

        The bound that follows is one of the assignments of states that are left.

        Returns:
            The variables that lost any.
        """
        most = share * abs(self.bound)
        lost = set()
        for x, scores in self.scores.items():
            keep = (scores <= most) | (self.alive[x] == states[x])
            if not keep.all():
                self._keep(x, keep)
                lost.add(x)
        return lost

    def _sweep(self, order: Sequence[int], behind: Tables, ahead: Tables) -> None:
        bound = 0.0
        for x in order:
            total, heard = self._unary[x], self._heard[x]
            for y in behind[x]:
                total = total + heard[y]
            for y in ahead[x]:
                total = total + heard[y]
            self._total[x] = total
            if not ahead[x]:
                bound += least_of(total)
                continue
            share = total / len(ahead[x])
            for y, table in ahead[x].items():
                self._heard[y][x] = least_of(table + (share - heard[y])[:, None])
        self.floor, self._proved = self._proved, float(bound)
        self.bound = max(self.bound, self._proved)

    def _go_on(self, momentum: float) -> None:
        """Change the messages that the next pass begins with once more as they just changed."""
        ends = [(self._heard[x], self._last[x], y) for x in self._order for y in self._after[x]]
        if not ends:
            return
        costs = np.concatenate([heard[y] for heard, _, y in ends])
        change = costs - np.concatenate([last[y] for _, last, y in ends])
        most = _LEAP * max(self.upper - self._proved, 0.0)
        change = np.clip(change, -most, most)
        further = costs + momentum * change
        at = 0
        for heard, last, y in ends:
            last[y] = heard[y]
            heard[y] = further[at : (at := at + len(heard[y]))]

    def _drop(self) -> bool:
        """Drop the states with which everything costs more than `upper`; whether any are left."""
        limit = self.upper + _ROUNDING * abs(self.upper)
        for x, scores in self.scores.items():
            keep = self.floor + scores <= limit
            if keep.all():
                continue
            if not keep.any():
                self.bound = self.upper
                return False
            self._keep(x, keep)
        return True

    def _keep(self, x: int, keep: NDArray[np.bool_]) -> None:
        """Forget the other states of a variable."""
        self.alive[x], self._unary[x] = self.alive[x][keep], self._unary[x][keep]
        self._total[x] = self._total[x][keep]
        for y in self._last[x]:
            self._last[x][y] = self._last[x][y][keep]
        for mine, theirs in ((self._before, self._after), (self._after, self._before)):
            for y in mine[x]:
                self._heard[x][y] = self._heard[x][y][keep]
                theirs[y][x] = long_rows(theirs[y][x][:, keep])
                mine[x][y] = theirs[y][x].T

    def _look(self, order: Sequence[int], behind: Tables, ahead: Tables) -> None:
        """Choose states in order, each the best for those behind and the messages from ahead."""
        chosen: dict[int, int] = {}
        for x in order:
            cost = self._unary[x]
            for y in behind[x]:
                cost = cost + ahead[y][x][chosen[y]]
            for y in ahead[x]:
                cost = cost + self._heard[x][y]
            chosen[x] = int(cost.argmin())
        found = {x: int(self.alive[x][state]) for x, state in chosen.items()}
        unary, tables = self._given
        cost_now = sum([float(u[found[x]]) for x, u in unary.items()])
        cost_now += sum([float(t[found[x], found[y]]) for (x, y), t in tables.items()])
        if cost_now < self.least:
            self.least, self.states = cost_now, found


def long_rows(table: Costs) -> Costs:
    """The table, its longer dimension contiguous in memory: loops over a short one take long."""
    return np.asarray(table, order="F" if len(table) > table.shape[1] else "C")
