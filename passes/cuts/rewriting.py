"""The function at hand while one pattern after another is rewritten in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dtensor.dialect.mlir import ir
from dtensor.passes.cuts.names import BROADCAST, CUTS, REDUCE, RESHAPE, REVERSE, TRANSPOSE, WINDOWED
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import Visit

_MOVING = CUTS | WINDOWED | {RESHAPE, TRANSPOSE, REVERSE, BROADCAST, REDUCE}


@dataclass
class Rewriting:
    """What a pattern may look at and write.

    Attributes:
        ops: of the function, in order.
        shards: tell which dimensions layouts split.
        made: takes what is created.
    """

    ops: Sequence[Visit]
    shards: Shards
    made: list[ir.Operation] = field(default_factory=list)

    def named(self, *names: str) -> list[ir.Operation]:
        """The operations of these names."""
        return [op for op, name, _ in self.ops if name in names]

    @property
    def separable(self) -> list[ir.Operation]:
        """The operations of which each part of the result is computed by itself."""
        return [op for op, name, _ in self.ops if name in _MOVING or opdef(name).resizes]
