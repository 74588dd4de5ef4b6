"""The function at hand while one pattern after another is rewritten in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.program import Operations


@dataclass
class Rewriting:
    """What a pattern may look at and write.

    Attributes:
        ops: of the function.
        shards: tell which dimensions layouts split.
        made: takes what is created.
        has_changed: whether anything was rewritten, so that operations may be left that nobody
            reads.
    """

    ops: Operations
    shards: Shards
    made: list[ir.Operation] = field(default_factory=list)
    has_changed: bool = False

    def named(self, *names: str) -> list[ir.Operation]:
        """The operations of these names."""
        return self.ops.named(*names)

    def replace(self, op: ir.Operation, value: Value | None) -> None:
        """Let a value, if there is one, stand for the result of an operation."""
        if value is not None:
            op.results[0].replace_all_uses_with(value)
            self.has_changed = True
