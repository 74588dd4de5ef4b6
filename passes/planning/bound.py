"""A lower bound of what plans cost: sequential tree-reweighted message passing.

V. Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", IEEE PAMI
28(10), 2006: the tables are re-shared between variables along the program's order, forward and
backward; what every variable and table costs at least, summed, never falls from sweep to sweep and
never exceeds the cheapest plan. Before it, variables with one or two neighbours are minimised away
(Dechter 1999), which loses nothing: on a tree the bound is the minimum. States with which it would
be above what is known to be possible go on the way; where few are left, all variables are minimised
away, and the bound is the minimum too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.planning.buckets import least_cost
from dtensor.passes.planning.model import Costs, Model

MAX_TABLE = 1_000_000  # entries that minimising a variable away may visit
SWEEPS = 200  # pairs of a forward and a backward sweep
_STALL = 2e-5  # relative; so small a rise, and the sweeps end
_PATIENCE = 4  # such rises in a row
_ENOUGH = 1e-6  # relative; an assignment that is so near the bound is a cheapest one
_DROP = 4  # pairs of sweeps after which states that are too dear are dropped


@dataclass(frozen=True)
class Bound:
    """What no assignment of states falls below.

    Attributes:
        cost: microseconds.
        states: per variable, its state in the cheapest assignment met on the way.
        sweeps: how many pairs of sweeps it took; 0 if everything was minimised away.
        left: variables that were not.
    """

    cost: float
    states: list[int]
    sweeps: int
    left: int


def lower_bound(
    model: Model, upper: float = np.inf, sweeps: int = SWEEPS, max_table: int = MAX_TABLE
) -> Bound:
    """A cost that no assignment of states of a model falls below.

    Args:
        model: unchanged.
        upper: what is known to be possible; a bound above it is not looked for.
        sweeps: pairs of sweeps at most; more make it tighter.
        max_table: entries that minimising one variable away may visit.
    """
    core = _Core(model)
    core.reduce(max_table)
    if not core.near:
        return Bound(core.constant, core.back({}), 0, 0)
    messages = _Messages(core, _positions(model), upper - core.constant)
    count = messages.run(sweeps)
    states = core.back(messages.states)
    return Bound(core.constant + messages.bound, states, count, len(core.near))


def cost_of(model: Model, states: Sequence[int]) -> float:
    """Microseconds of one assignment of states."""
    unary = sum([float(u[s]) for u, s in zip(model.unary, states, strict=True)])
    tables = [float(t[states[x], states[y]]) for (x, y), t in model.tables.items()]
    return unary + sum(tables)


def _positions(model: Model) -> list[float]:
    """Where the variables stand in the program: a value's copies behind its first neighbour."""
    nodes = {x for x in model.variable_of if x >= 0}
    found = []
    for x, near in enumerate(model.near):
        ahead = [y for y in near if y in nodes]
        found.append(float(x) if x in nodes or not ahead else min(ahead) + 0.5)
    return found


class _Core:
    """A model from which variables are minimised away.

    Attributes:
        unary: per variable, what each state costs by itself.
        near: per variable that is left, its tables by neighbour, its own states along the rows.
        constant: what the variables that are gone cost at least.
        gone: the variables that are gone, their neighbours then, and the states they would take.
    """

    def __init__(self, model: Model) -> None:
        self.unary = list(model.unary)
        self.near: dict[int, dict[int, Costs]] = {x: {} for x in range(len(model.unary))}
        for (x, y), costs in model.tables.items():
            self.near[x][y], self.near[y][x] = costs, costs.T
        self.constant = 0.0
        self.gone: list[tuple[int, list[int], NDArray[np.intp]]] = []

    def back(self, states: Mapping[int, int]) -> list[int]:
        """The states of all variables, from those of the variables that are left."""
        found = dict(states)
        for x, near, choice in reversed(self.gone):
            found[x] = int(choice[tuple([found[y] for y in near])])
        return [found[x] for x in range(len(self.unary))]

    def cost(self, states: Mapping[int, int]) -> float:
        """Microseconds of states of the variables that are left, beyond the constant."""
        total = sum([float(self.unary[x][states[x]]) for x in self.near])
        for x, tables in self.near.items():
            total += sum([float(t[states[x], states[y]]) for y, t in tables.items() if y > x])
        return total

    def reduce(self, max_table: int) -> None:
        """Minimise away variables of at most two neighbours, as long as there are any."""
        waiting = dict.fromkeys(self.near)
        while waiting:
            x = next(iter(waiting))
            del waiting[x]
            if x not in self.near or len(self.near[x]) > 2:
                continue
            sizes = [len(self.unary[y]) for y in self.near[x]]
            if len(self.unary[x]) * int(np.prod(sizes)) <= max_table:
                waiting.update(dict.fromkeys(self._eliminate(x)))

    def _eliminate(self, x: int) -> list[int]:
        unary, tables = self.unary[x], self.near.pop(x)
        for y in tables:
            del self.near[y][x]
        found = list(tables)
        joined: Costs = unary  # states of the neighbours by states of x
        for y in found:
            shape = (len(self.unary[y]), *[1] * (joined.ndim - 1), len(unary))
            joined = joined + tables[y].T.reshape(shape)
        self.gone.append((x, found[::-1], joined.argmin(-1)))
        best = joined.min(-1)
        if not found:
            self.constant += float(best)
        elif len(found) == 1:
            self.unary[found[0]] = self.unary[found[0]] + best
        else:
            z, y = found[::-1]
            best = best + self.near[z].get(y, 0.0)
            self.near[z][y], self.near[y][z] = best, best.T
        return found


class _Messages:
    """Messages between neighbours; `bound` never falls.

    Attributes:
        bound: what the variables cost at least, or `upper` if that is less.
        states: per variable, its state in the cheapest assignment met.
    """

    def __init__(self, core: _Core, position: Sequence[float], upper: float) -> None:
        self.core = core
        self.upper = upper
        self.bound, self.least = -np.inf, np.inf
        self.states: dict[int, int] = dict.fromkeys(core.near, 0)
        self.order = sorted(core.near, key=lambda x: (position[x], x))
        rank = {x: i for i, x in enumerate(self.order)}
        self.ahead = {x: [y for y in core.near[x] if rank[y] < rank[x]] for x in self.order}
        self.behind = {x: [y for y in core.near[x] if rank[y] > rank[x]] for x in self.order}
        # What is left of the variables' states: states that are too dear are dropped.
        self.alive = {x: np.arange(len(core.unary[x])) for x in self.order}
        self.unary = {x: core.unary[x] for x in self.order}
        self.table: dict[tuple[int, int], Costs] = {}  # (one, other): states of `other` as rows
        self.message: dict[tuple[int, int], Costs] = {}  # (from, to): per state of `to`
        for x, tables in core.near.items():
            for y, table in tables.items():
                self.table[x, y] = np.ascontiguousarray(table.T)
                self.message[y, x] = np.zeros(len(core.unary[x]))
        self.dearer: dict[int, Costs] = {}  # per state, by how much it raises the bound at least

    def run(self, sweeps: int) -> int:
        """Sweep until the bound stops to rise, or is what an assignment costs; how many times."""
        stalled = count = 0
        while count < sweeps and stalled < _PATIENCE:
            count += 1
            self._round()
            floor = self._sweep(self.order, self.ahead, self.behind)
            before = self.bound
            now = self._sweep(self.order[::-1], self.behind, self.ahead)
            stalled = stalled + 1 if now - before <= _STALL * abs(now) else 0
            self.bound = max(before, now)
            if self._is_tight() or (count % _DROP == 0 and not self._drop(floor)):
                break
        if not self._is_tight() and self._drop(floor):
            self._eliminate()
        self.bound = min(self.bound, self.upper)
        return count

    def _is_tight(self) -> bool:
        best = min(self.least, self.upper)
        return best - self.bound <= _ENOUGH * abs(best)

    def _eliminate(self) -> None:
        """Find the least cost of the states that are left, if no table becomes too large."""
        tables: dict[tuple[int, ...], Costs] = {}
        for x, y in self.table:
            if x < y:
                tables[x, y] = self.table[y, x]
        found = least_cost(self.unary, tables, MAX_TABLE)
        if found is not None:
            self.bound = max(self.bound, min(found[0], self.least))
            states = {x: int(self.alive[x][state]) for x, state in found[1].items()}
            if found[0] < self.least:
                self.least, self.states = found[0], states

    def _drop(self, floor: float) -> bool:
        """Drop states with which all costs more than what is possible; whether any are left.

        Args:
            floor: the bound before the last sweep: what `dearer` says comes on top of that.
        """
        most = min(self.least, self.upper)
        for x in self.order:
            keep = floor + self.dearer[x] <= most + _ENOUGH * abs(most)
            if keep.all():
                continue
            if not keep.any():
                self.bound = most
                return False
            self.alive[x], self.unary[x] = self.alive[x][keep], self.unary[x][keep]
            self.dearer[x] = self.dearer[x][keep]
            for y in (*self.ahead[x], *self.behind[x]):
                self.message[y, x] = self.message[y, x][keep]
                self.table[x, y] = np.ascontiguousarray(self.table[x, y][:, keep])
                self.table[y, x] = np.ascontiguousarray(self.table[y, x][keep])
        return True

    def _round(self) -> None:
        """Choose states in order, each the best for those before and the messages from behind."""
        states: dict[int, int] = {}
        for x in self.order:
            cost = self.unary[x]
            for y in self.ahead[x]:
                cost = cost + self.table[y, x][:, states[y]]
            for y in self.behind[x]:
                cost = cost + self.message[y, x]
            states[x] = int(cost.argmin())
        found = {x: int(self.alive[x][state]) for x, state in states.items()}
        cost_now = self.core.cost(found)
        if cost_now < self.least:
            self.least, self.states = cost_now, found

    def _sweep(
        self,
        order: Sequence[int],
        near: Mapping[int, Sequence[int]],
        far: Mapping[int, Sequence[int]],
    ) -> float:
        """Pass messages along the order; what the variables and tables cost at least."""
        bound, message, table = 0.0, self.message, self.table
        for x in order:
            belief = self.unary[x]
            for y in (*near[x], *far[x]):
                belief = belief + message[y, x]
            least = float(belief.min())
            bound += least
            belief = belief - least
            self.dearer[x] = belief
            share = belief / max(len(near[x]), len(far[x]), 1)
            for y in far[x]:
                sent = (table[x, y] + (share - message[y, x])).min(1)
                lowest = float(sent.min())
                message[x, y] = sent - lowest
                bound += lowest
        return bound
