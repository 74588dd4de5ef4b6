"""The values that a loop carries, by what its trips do to them.

Values of any kind may depend on themselves alone, as the variance of a Kalman filter does: what
they are in each trip is known without the arrays. Others only add up. What is left is mapped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, ops_of, reader_of
from dtensor.passes.builder import Builder
from dtensor.passes.forms.blocked_body import BlockedBody, Values, needed
from dtensor.passes.forms.trips import Trips
from dtensor.passes.ops.custom_calls import widened_call
from dtensor.passes.ops.elements import INEXACT, INTEGERS, element_kind
from dtensor.passes.ops.elementwise import SUMS
from dtensor.passes.ops.rows import rows_flops
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CALLS, CUSTOM_CALL, RETURNS, read_by, walk
from dtensor.passes.rewriting.shards import Shards

FEW = 1 << 16  # flops of a trip that is not worth dividing among devices


@dataclass
class Carries(ABC):
    """The carried values of a loop.

    Attributes:
        trips: the loop.
        mapped: numbers of the carried values that each trip maps.
        sums: numbers of those that each trip adds something to, and reads for nothing else.
        own: numbers of those that depend on each other alone, and on no array that is walked.
    """

    trips: Trips
    mapped: list[int]
    sums: list[int]
    own: list[int]

    @abstractmethod
    def maps(self) -> bool:
        """Find what each trip does; whether it is something of this kind."""

    @abstractmethod
    def pays(self, shards: Shards, read: float, written: float, blocks: int) -> bool:
        """Whether blocks send less than the arrays that are read and written would.

        Args:
            shards: into how many shards dimensions are known to be split.
            read: bytes of the split arrays that the trips read.
            written: bytes of those that they write.
            blocks: how many blocks there would be.
        """

    @abstractmethod
    def ends(self, make: Builder, blocked: BlockedBody, own: Values) -> Values | None:
        """The carried values at the end of each block; None if it needs the block before it.

        Args:
            make: writes before the loop.
            blocked: the blocks.
            own: of carried values that depend on themselves alone, those that come into the blocks.
        """


def ways(trips: Trips, kinds: Sequence[type[Carries]]) -> Iterator[Carries]:
    """The ways to understand what the trips of a loop do, the best first.

    A loop that only adds up the parts of a batch is written so to hold less memory: there each
    trip is divided among the devices, and not the trips, unless there is hardly anything to divide.

    Args:
        trips: the loop.
        kinds: what a trip may do to the carried values.
    """
    inside = [inner for op in ops_of(trips.body) for inner in _with_inner(op)]
    if any(map(_does_more, inside)):
        return
    own = _own(trips)
    for kind in kinds:
        for apart in ([], own) if own else ([],):
            sums = [k for k in trips.carried if k not in apart and _adds_up(trips, k)]
            mapped = [k for k in trips.carried if k not in apart and k not in sums]
            is_whole = rows_flops(trips.body) > FEW if sums else not trips.writes
            if not mapped and is_whole:
                continue
            found = kind(trips, mapped, sums, apart)
            if found.maps():
                yield found


def _adds_up(trips: Trips, k: int) -> bool:
    """Whether the body only adds to a carried value, and returns the last sum."""
    value: Value = trips.body.arguments[k]
    last = trips.given[k]
    if kind_of_elements(value.type) not in (*INEXACT, *INTEGERS):
        return False
    while True:
        op = reader_of(value)
        if op is None:
            return False
        if value == last:
            return True
        is_first = op.operands[0] == value or op.name == SUMS[0]
        if op.block != trips.body or op.name not in SUMS or not is_first:
            return False
        value = op.results[0]


def _own(trips: Trips) -> list[int]:
    """The carried values that depend on nothing but each other, counters and what never changes."""
    arguments = trips.body.arguments
    found = list(trips.carried)
    while True:
        known = {arguments[k] for k in (*found, *trips.fixed, *trips.counters)}
        kept = [k for k in found if _reads_only(trips, trips.given[k], known)]
        if len(kept) == len(found):
            return kept
        found = kept


def _reads_only(trips: Trips, value: Value, known: set[Value]) -> bool:
    """Whether a value of the body depends on these arguments of it alone, and reads no array."""
    ops = needed(trips, [value])
    read = [value, *(each for op in ops for each in read_by(op))]
    return not any(op in trips.reads for op in ops) and all(
        each in known for each in read if each in trips.body.arguments
    )


def kind_of_elements(type_: ir.Type) -> str:
    """The kind of the elements of a tensor; nothing of anything else."""
    is_tensor = isinstance(type_, ir.RankedTensorType)
    return element_kind(str(ir.RankedTensorType(type_).element_type))[0] if is_tensor else ""


def _with_inner(op: ir.Operation) -> list[ir.Operation]:
    return [op, *(inner for inner, _, _ in walk(op, combiners=True))]


def _does_more(op: ir.Operation) -> bool:
    """Whether an operation may do something besides giving its results."""
    is_call = op.name in CALLS or (op.name == CUSTOM_CALL and widened_call(op) is None)
    return is_call or bool(opdef(op.name).varies) or not (len(op.results) or op.name in RETURNS)
