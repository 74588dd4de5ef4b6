"""The values of a planned program by number, and their layouts; the same in each copy of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtensor.dialect.attributes import layout_of, layouts_of_array, read_meshes
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import inner_layout
from dtensor.dialect.mlir import ir, terminator
from dtensor.dialect.names import ARG_ATTRS, LAYOUT_ATTR, MANUAL, RELAYOUT, RESULTS
from dtensor.passes.functions import boundary_layouts, main_function
from dtensor.passes.program import CONTROL, RETURNS, free_axes, ties, walk


class Numbering:
    """Numbers the arguments and results of every operation of `main`, in program order.

    Args:
        module: the program with its layouts, relayouts inserted, not expanded.

    Attributes:
        numbers: the number of each value.
        layouts: the layout of each number; None for what is no tensor.
        blocks: the blocks of `main`: its own, then the regions of loops, branches and shard_map.
        regions: of each operation that has such regions, their places in `blocks`.
    """

    def __init__(self, module: ir.Module) -> None:
        self._meshes = read_meshes(module)
        self.numbers: dict[ir.Value[Any], int] = {}
        self.layouts: list[Layout | None] = []
        main = main_function(module)
        self.blocks: list[ir.Block] = [main.regions[0].blocks[0]]
        self.regions: dict[ir.Operation, tuple[int, ...]] = {}
        self._add(self.blocks[0].arguments, boundary_layouts(main, ARG_ATTRS, self._meshes))
        for op, name, _ in walk(main):
            if name in RETURNS:
                continue
            layouts = self._results(op, name)
            if name in CONTROL:
                self._enter(op, layouts)
            elif name == MANUAL:
                self._enter_manual(op, layouts)
            self._add(op.results, layouts)

    def _enter(self, op: ir.Operation, layouts: Sequence[Layout | None]) -> None:
        first = len(self.blocks)
        self.regions[op] = tuple(range(first, first + len(op.regions)))
        rows = [tie.values[:-1] for tie in ties(op)]  # the arguments of a loop's two blocks
        for k, region in enumerate(op.regions):
            block = region.blocks[0]
            self.blocks.append(block)
            if block.arguments:
                assert [row[k] for row in rows] == list(block.arguments)
                self._add(block.arguments, layouts)

    def _enter_manual(self, op: ir.Operation, results: Sequence[Layout | None]) -> None:
        """Nothing but what comes and goes has numbers where no axis is left to the planner."""
        block, free = op.regions[0].blocks[0], free_axes(op)
        self.regions[op] = (len(self.blocks),)
        self.blocks.append(block)
        given = [self.layouts[self.numbers[value]] for value in op.operands]
        self._add(block.arguments, [x and inner_layout(x, free) for x in given])
        if not free:
            inside = [x and inner_layout(x, free) for x in results]
            passed = zip(terminator(block).operands, inside, strict=True)
            new = {value: x for value, x in passed if value not in self.numbers}
            self._add(list(new), list(new.values()))

    def _results(self, op: ir.Operation, name: str) -> Sequence[Layout | None]:
        if RESULTS in op.attributes:
            return layouts_of_array(op.attributes[RESULTS], self._meshes)
        if name == RELAYOUT:
            return (layout_of(op.attributes[LAYOUT_ATTR], self._meshes),)
        return (None,) * len(op.results)

    def free(self, number: int) -> tuple[str, ...] | None:
        """The axes that the shard_map around a block leaves to the planner; None outside of any."""
        op = self.blocks[number].owner.operation
        while op.parent is not None:
            if op.name == MANUAL:
                return free_axes(op)
            op = op.parent.operation
        return None

    def _add(self, values: Sequence[ir.Value[Any]], layouts: Sequence[Layout | None]) -> None:
        for value, layout in zip(values, layouts, strict=True):
            self.numbers[value] = len(self.layouts)
            self.layouts.append(None if layout is None else layout.closed())
