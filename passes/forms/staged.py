"""Loops some of whose carried values are known before the others are: those come first.

The largest score that a softmax has seen is a maximum, whatever its sums are. Once it is known of
each block, the sums are affine: `sum * exp(before - now) + new`. So are a moving average, and the
variance around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dtensor.passes.builder import Builder
from dtensor.passes.forms.affine import Affine
from dtensor.passes.forms.blocked_body import BlockedBody, Values, needed
from dtensor.passes.forms.carries import Carries
from dtensor.passes.forms.clamps import Clamps
from dtensor.passes.program import read_by
from dtensor.passes.rewriting.shards import Shards

_MOST_STAGES = 3  # stages: blocks run their trips once for each, and once more


@dataclass
class Staged(Carries):
    """The carried values of a loop, in stages: each depends on itself and on stages before it.

    Attributes:
        stages: what trips do to the values of each.
    """

    stages: list[Carries] = field(default_factory=list)

    def maps(self) -> bool:
        """Find the stages; whether there are some, and few."""
        reads = {k: self._reads(k) for k in self.mapped}
        left, known = list(self.mapped), list(self.own)
        while left and len(self.stages) < _MOST_STAGES:
            ready = [k for k in left if reads[k] <= {k, *known}]
            affine = [k for k in ready if Affine(self.trips, [k], [], known).maps()]
            rest = [k for k in ready if k not in affine]
            clamped = [k for k in rest if Clamps(self.trips, [k], [], known).maps()]
            for kind, values in ((Affine, affine), (Clamps, clamped)):
                if values:
                    stage = kind(self.trips, values, [], list(known))
                    if not stage.maps():
                        return False
                    self.stages.append(stage)
            if not affine and not clamped:
                return False
            known += [*affine, *clamped]
            left = [k for k in left if k not in known]
        return bool(self.stages) and not left and len(self.stages) <= _MOST_STAGES

    def _reads(self, k: int) -> set[int]:
        """The carried values of `mapped` that a trip reads for one."""
        trips = self.trips
        ops = needed(trips, [trips.given[k]])
        read = {trips.given[k], *(value for op in ops for value in read_by(op))}
        return {j for j in self.mapped if trips.body.arguments[j] in read}

    def pays(self, shards: Shards, read: float, written: float, blocks: int) -> bool:
        """Whether every stage does; none sends more than a few carried values."""
        share = len(self.stages)
        return all(each.pays(shards, read / share, written / share, blocks) for each in self.stages)

    def ends(self, make: Builder, blocked: BlockedBody, own: Values) -> Values:
        """Those of each stage, by what is known of the stages before it."""
        found, known = Values(), dict(own)
        for stage in self.stages:
            given = {k: known[k] for k in stage.own}
            ends = stage.ends(make, blocked, given)
            found |= ends or {}
            known |= blocked.ahead(make, ends or {})
        return {k: found[k] for k in self.mapped}
