"""The steps a relayout is made of.

Each says what is moved in terms of the local tensor, so that it can be written down without
knowing the layout it starts from. Where a dimension's shard consists of blocks, `outer` is the
number of local blocks more major than the digit that is gathered or cut: the local dimension is
read as `outer` rows and the step works on each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.passes.ops.rounds import Round, elements_sent


@dataclass(frozen=True)
class Step:
    """One move of a tensor from layout to layout.

    Attributes:
        result: the layout after the step.
        wire_bytes: bytes each device sends, by the ring convention of `cost.model`.
        is_local: whether the step needs no communication.
    """

    is_local: ClassVar[bool] = False

    result: Layout
    wire_bytes: float

    @property
    def collectives(self) -> int:
        """How many collectives it takes, one after the other."""
        return 0 if self.is_local else 1

    if TYPE_CHECKING:

        @property
        def axes(self) -> tuple[AxisRef, ...]:
            """The mesh axes that the step is about: it communicates over them, if it does."""


@dataclass(frozen=True)
class OnDimension(Step):
    """A step on the rows of a dimension; the axes' first is major."""

    dim: int
    outer: int
    axes: tuple[AxisRef, ...]


@dataclass(frozen=True)
class Slice(OnDimension):
    """Each device keeps its part of dimension `dim`."""

    is_local = True


@dataclass(frozen=True)
class Gather(OnDimension):
    """Dimension `dim` is put together from the parts of the devices along `axes`."""


@dataclass(frozen=True)
class ReduceScatter(OnDimension):
    """The parts held along `axes` are combined; each device gets its part of dimension `dim`."""

    reduction: str


@dataclass(frozen=True)
class Spread(OnDimension):
    """A split dimension becomes whole and partial: each device keeps its part, in its place."""

    is_local = True
    reduction: str


@dataclass(frozen=True)
class Reduce(Step):
    """The parts held along `axes` are combined; every device gets the result."""

    axes: tuple[AxisRef, ...]
    reduction: str


@dataclass(frozen=True)
class Mask(Step):
    """A complete value becomes partial: the first device along `axes` keeps it.

    The others hold the identity of the reduction.
    """

    is_local = True
    axes: tuple[AxisRef, ...]
    reduction: str


@dataclass(frozen=True)
class AxisMove:
    """One axis of an all_to_all: it leaves one digit of the tensor and splits another.

    Attributes:
        axis: the mesh axis.
        source: tensor dimension and position M of the digit it splits before.
        target: likewise, after.
    """

    axis: AxisRef
    source: tuple[int, int]
    target: tuple[int, int]


@dataclass(frozen=True)
class AllToAll(Step):
    """Axes move from some digits of the tensor to others, all in one exchange."""

    before: Layout
    moves: tuple[AxisMove, ...]

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes that move, first major."""
        return tuple(move.axis for move in self.moves)


@dataclass(frozen=True)
class Permute(Step):
    """Whole shards move: the one at number k along `sources` goes to number k along `targets`."""

    sources: tuple[AxisRef, ...]
    targets: tuple[AxisRef, ...]

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes that shards leave."""
        return self.sources


@dataclass(frozen=True)
class Match(OnDimension):
    """Pieces of dimension `dim` go from device to device, one of each in a round."""

    pieces: int
    rounds: tuple[Round, ...]

    @property
    def collectives(self) -> int:
        return elements_sent(self.rounds)[1]


def wire_bytes(steps: tuple[Step, ...]) -> float:
    """Wire bytes of a whole plan, per device."""
    return sum(step.wire_bytes for step in steps)
