"""Loops whose trips do anything to what they carry: blocks of trips run one after another.

A recurrent network, the forward pass of a hidden Markov model and Viterbi's algorithm need the
carried values of one trip for the next. No more than these need go from one shard of the trips to
the next one; the arrays that the trips read and write stay where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dtensor.dialect.mlir import ir
from dtensor.passes.builder import Builder
from dtensor.passes.forms.blocked_body import BlockedBody, Values, needed
from dtensor.passes.forms.carries import FEW, Carries
from dtensor.passes.ops.attributes import shape_of, size_bytes
from dtensor.passes.ops.linear import CoupledDims
from dtensor.passes.ops.rows import rows_flops
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.table import rule_of
from dtensor.passes.program import read_by
from dtensor.passes.rewriting.shards import Shards

_MOST_FLOPS = 1 << 22  # flops of a trip: of more, any dimension is better split


@dataclass
class Serial(Carries):
    """The carried values of a loop, whatever its trips do to them, and those that only add up.

    Attributes:
        mixed: by number of such a value, the dimensions along which elements meet.
    """

    mixed: dict[int, list[int]] = field(default_factory=dict)

    def maps(self) -> bool:
        """Find along which dimensions elements meet; whether a trip has little to do."""
        trips, groups = self.trips, CoupledDims()
        if not self.mapped or rows_flops(trips.body) > _MOST_FLOPS:
            return False
        known = {trips.body.arguments[k] for k in self.mapped}
        for op in needed(trips, [trips.given[k] for k in self.mapped]):
            if any(value in known for value in read_by(op)):
                known.update(op.results)
                _note(op, groups)
        for k in self.mapped:
            groups.join_all(trips.given[k], trips.body.arguments[k])
        mixed = groups.mixed()
        self.mixed = {k: groups.dims_in(mixed, trips.body.arguments[k]) for k in self.mapped}
        return True

    def pays(self, shards: Shards, read: float, written: float, blocks: int) -> bool:
        """Whether less is sent than by gathering what is read, and no dimension can be split."""
        values = self.trips.loop.operands
        largest = max(self.mapped, key=lambda k: size_bytes(values[k]))
        shape = shape_of(values[largest])
        free = [d for d in range(len(shape)) if d not in self.mixed[largest]]
        left = math.prod(shape[d] // shards.count((values[largest], d)) for d in free)
        if left > 1 and rows_flops(self.trips.body) > FEW:
            return False
        sent = sum(size_bytes(values[k]) for k in self.mapped) * (blocks - 1)
        sent += 2 * sum(size_bytes(values[k]) for k in self.sums)
        return sent < read * (blocks - 1) / blocks

    def ends(self, make: Builder, blocked: BlockedBody, own: Values) -> None:
        """Nothing is known before the trips are run."""


def _note(op: ir.Operation, groups: CoupledDims) -> None:
    """Note which dimensions of an operation go together, and along which its elements meet."""
    info = OpInfo.of(op)
    rule = None if info is None else rule_of(info)
    slots = dict([*enumerate(op.operands), *((~k, value) for k, value in enumerate(op.results))])
    apart = list[tuple[int, int]]()
    for places in () if rule is None else rule.dims_of_factor:
        assert rule is not None
        if all(rule.passed_on(*place) is not None for place in places):
            apart += places
            keys = [(slots[slot], d) for slot, d in places]
            for key in keys:
                groups.join(keys[0], key)
    for slot, value in slots.items():
        groups.mix(value, [d for d in range(len(shape_of(value))) if (slot, d) not in apart])
