"""Which all_reduces XLA makes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtensor.dialect.mlir import ir
from dtensor.passes.graph import OpReader

if TYPE_CHECKING:
    from dtensor.passes.reports.kernels import InMemory, Kernel

ALL_REDUCE = "stablehlo.all_reduce"
_COMBINED_BYTES = 30 << 20


class Combiner:
    """Which all_reduces XLA makes one: over the same devices, of types alike, none before another.

    It combines up to a size; what reads one of them runs after the last.
    """

    def __init__(self, types: OpReader) -> None:
        self._types = types
        self._open: dict[ir.Attribute, int] = {}  # per devices, the group that takes more
        self._bytes: list[float] = []
        self._kernels: list[Kernel] = []
        self._needs: list[int] = []  # per group the groups before it, as bits
        self._after: dict[InMemory, int] = {}  # the groups that a value depends on, as bits
        self._group = -1

    def _before(self, reads: Sequence[InMemory]) -> int:
        before = 0
        for value in reads:
            before |= self._after.get(value, 0)
        return before

    def join(self, op: ir.Operation, reads: Sequence[InMemory]) -> Kernel | None:
        """The kernel that takes an all_reduce in; None if it begins one."""
        self._group = self._open.get(op.attributes["replica_groups"], -1)
        size = sum(self._types.type_info(value.type, None).bytes for value in op.operands)
        before = self._closed(self._before(reads))
        group = self._group
        if group < 0 or before >> group & 1 or self._bytes[group] + size > _COMBINED_BYTES:
            self._group = len(self._kernels)
            self._open[op.attributes["replica_groups"]] = self._group
            self._bytes.append(size)
            self._needs.append(before)
            return None
        self._bytes[group] += size
        self._needs[group] |= before
        return self._kernels[group]

    def open(self, kernel: Kernel) -> None:
        """The kernel of the group that the last all_reduce began."""
        self._kernels.append(kernel)

    def _closed(self, groups: int) -> int:
        """The groups, and all that are before them."""
        seen, left = 0, groups
        while left:
            group = left.bit_length() - 1
            seen |= 1 << group
            left = (left | self._needs[group]) & ~seen
        return seen

    def note(self, name: str, reads: Sequence[InMemory], results: Sequence[InMemory]) -> None:
        """Remember which groups the results depend on."""
        after = self._before(reads)
        if name == ALL_REDUCE:
            after |= 1 << self._group
        if after:
            self._after.update(dict.fromkeys(results, after))
