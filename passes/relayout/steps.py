"""The steps a relayout is made of.

Each says what is moved in terms of the local tensor, so that it can be written down without
knowing the layout it starts from. Where a dimension's shard consists of blocks, `outer` is the
number of local blocks more major than the digit that is gathered or cut: the local dimension is
read as `outer` rows and the step works on each row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.passes.relayout.matchings import Matching


@dataclass(frozen=True)
class Step(ABC):
    """One move of a tensor from layout to layout.

    Attributes:
        result: the layout after the step.
        wire_bytes: bytes each device sends, by the ring convention of `cost.model`.
        peak_local_bytes: bytes of operand and result together on one device.
        is_local: whether the step needs no communication.
    """

    is_local: ClassVar[bool] = False

    result: Layout
    wire_bytes: float
    peak_local_bytes: int

    @property
    def collectives(self) -> int:
        """How many collectives it takes, one after the other."""
        return 0 if self.is_local else 1

    if TYPE_CHECKING:

        @property
        def axes(self) -> tuple[AxisRef, ...]:
            """The mesh axes that the step is about: it communicates over them, if it does."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What the step does, in a few words."""

    def _axes_text(self, axes: tuple[AxisRef, ...]) -> str:
        mesh = self.result.mesh
        return ", ".join(axis.text(mesh.axis_size(axis.name)) for axis in axes)


@dataclass(frozen=True)
class Slice(Step):
    """Each device keeps its part of dimension `dim`; the axes' first is major."""

    is_local = True

    dim: int
    outer: int
    axes: tuple[AxisRef, ...]

    @property
    def text(self) -> str:
        return f"slice dimension {self.dim} over {self._axes_text(self.axes)}"


@dataclass(frozen=True)
class Gather(Step):
    """Dimension `dim` is put together from the parts of the devices along `axes`."""

    dim: int
    outer: int
    axes: tuple[AxisRef, ...]

    @property
    def text(self) -> str:
        return f"all_gather dimension {self.dim} over {self._axes_text(self.axes)}"


@dataclass(frozen=True)
class Move:
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
    moves: tuple[Move, ...]

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes that move, first major."""
        return tuple(move.axis for move in self.moves)

    @property
    def text(self) -> str:
        sources = sorted({move.source[0] for move in self.moves})
        targets = sorted({move.target[0] for move in self.moves})
        dims = f"dimension {_list(sources)} to {_list(targets)}"
        return f"all_to_all {self._axes_text(self.axes)} from {dims}"


@dataclass(frozen=True)
class Permute(Step):
    """Whole shards move: the one at number k along `sources` goes to number k along `targets`."""

    sources: tuple[AxisRef, ...]
    targets: tuple[AxisRef, ...]

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes that shards leave."""
        return self.sources

    @property
    def text(self) -> str:
        sources = self._axes_text(self.sources)
        return f"collective_permute from ({sources}) to ({self._axes_text(self.targets)})"


@dataclass(frozen=True)
class Match(Step):
    """Pieces of dimension `dim` go from device to device, one of each in a round.

    `outer` is as in the other steps: each of so many rows is exchanged so.
    """

    dim: int
    outer: int
    axes: tuple[AxisRef, ...]
    matching: Matching

    @property
    def collectives(self) -> int:
        return self.matching.rounds

    @property
    def text(self) -> str:
        axes = self._axes_text(self.axes)
        count = self.matching.rounds
        return f"{count} permutes of pieces of dimension {self.dim} over {axes}"


@dataclass(frozen=True)
class Reduce(Step):
    """The parts held along `axes` are combined; every device gets the result."""

    axes: tuple[AxisRef, ...]
    reduction: str

    @property
    def text(self) -> str:
        return f"all_reduce {self.reduction} over {self._axes_text(self.axes)}"


@dataclass(frozen=True)
class ReduceScatter(Step):
    """The parts held along `axes` are combined; each device gets its part of dimension `dim`."""

    dim: int
    outer: int
    axes: tuple[AxisRef, ...]
    reduction: str

    @property
    def text(self) -> str:
        axes = self._axes_text(self.axes)
        return f"reduce_scatter {self.reduction} over {axes} into dimension {self.dim}"


@dataclass(frozen=True)
class Mask(Step):
    """A complete value becomes partial: the first device along `axes` keeps it.

    The others hold the identity of the reduction.
    """

    is_local = True

    axes: tuple[AxisRef, ...]
    reduction: str

    @property
    def text(self) -> str:
        return f"mask for a later {self.reduction} over {self._axes_text(self.axes)}"


@dataclass(frozen=True)
class Spread(Step):
    """A split dimension becomes whole and partial: each device keeps its part, in its place."""

    is_local = True

    dim: int
    outer: int
    axes: tuple[AxisRef, ...]
    reduction: str

    @property
    def text(self) -> str:
        axes = self._axes_text(self.axes)
        return f"spread dimension {self.dim} for a later {self.reduction} over {axes}"


def wire_bytes(steps: tuple[Step, ...]) -> float:
    """Wire bytes of a whole plan, per device."""
    return sum(step.wire_bytes for step in steps)


def _list(numbers: list[int]) -> str:
    return ", ".join(str(n) for n in numbers)
