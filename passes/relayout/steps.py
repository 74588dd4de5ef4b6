"""The steps a relayout is made of.

Each says what is moved in terms of the local tensor, so that it can be written down without
knowing the layout it starts from. Where a dimension's shard consists of blocks, `outer` is the
number of local blocks more major than the digit that is gathered or cut: the local dimension is
read as `outer` rows and the step works on each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.passes.ops.rounds import PermuteRound, elements_sent

LOCAL_KINDS: Final = ("slice", "spread", "mask")  # the kinds that need no communication


@dataclass(frozen=True)
class AxisMove:
    """One axis of an all_to_all: it leaves one digit of the tensor and splits another.

    Attributes:
        axis: the mesh axis.
        source: tensor dimension and position M of the digit it splits before.
        target: likewise, after.
        outers: local blocks that are more major than either, before.
    """

    axis: AxisRef
    source: tuple[int, int]
    target: tuple[int, int]
    outers: tuple[int, int]


@dataclass(frozen=True)
class RelayoutStep:
    """One move of a tensor from layout to layout. Its kind is one of these.

    - `slice`: each device keeps its part of a dimension.
    - `gather`: a dimension is put together from the parts of the devices.
    - `spread`: a split dimension becomes whole and partial: each device keeps its part, where it
      stands.
    - `reduce`: the parts that devices hold are combined; every device gets the result.
    - `reduce_scatter`: the same; each device gets its part of a dimension.
    - `mask`: a complete value becomes partial: the first device keeps it, and the others hold the
      identity of the reduction.
    - `all_to_all`: axes move from some digits of the tensor to others, all in one exchange.
    - `permute`: whole shards move: the one at number k along `axes` goes to number k along
      `targets`.
    - `match`: pieces of a dimension go from device to device, one of each in a round.

    Attributes:
        kind: which.
        result: the layout after the step.
        wire_bytes: bytes each device sends, by the ring convention of `cost.model`.
        axes: the mesh axes that the step is about, the first major: it communicates over them, if
            it does.
        dim: the dimension whose rows it works on.
        outer: how many rows.
        reduction: how parts are combined.
        moves: of an all_to_all, what becomes of each axis.
        targets: of a permute, the axes that shards enter.
        pieces: of a match, into how many each row falls.
        rounds: likewise, what is sent, counted in pieces.
    """

    kind: str
    result: Layout
    wire_bytes: float
    axes: tuple[AxisRef, ...]
    dim: int = -1
    outer: int = 1
    reduction: str = ""
    moves: tuple[AxisMove, ...] = ()
    targets: tuple[AxisRef, ...] = ()
    pieces: int = 1
    rounds: tuple[PermuteRound, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether the step needs no communication."""
        return self.kind in LOCAL_KINDS

    @property
    def collectives(self) -> int:
        """How many collectives it takes, one after the other."""
        return elements_sent(self.rounds)[1] if self.kind == "match" else int(not self.is_local)


def wire_bytes(steps: tuple[RelayoutStep, ...]) -> float:
    """Wire bytes of a whole plan, per device."""
    return sum(step.wire_bytes for step in steps)
