"""The values of a planned program by number, and their layouts; the same in each copy of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtensor.dialect.attributes import layout_of, layouts_of_array, read_meshes
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import ARG_ATTRS, LAYOUT_ATTR, RELAYOUT, RESULTS
from dtensor.passes.functions import boundary_layouts, main_function
from dtensor.passes.program import CONTROL, RETURNS, ties, walk


class Numbering:
    """Numbers the arguments and results of every operation of `main`, in program order.

    Args:
        module: the program with its layouts, relayouts inserted, not expanded.

    Attributes:
        numbers: the number of each value.
        layouts: the layout of each number; None for what is no tensor.
        blocks: the blocks of `main`: its own, then the regions of loops and branches.
        regions: of each loop and branch, the places of its regions in `blocks`.
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

    def _results(self, op: ir.Operation, name: str) -> Sequence[Layout | None]:
        if RESULTS in op.attributes:
            return layouts_of_array(op.attributes[RESULTS], self._meshes)
        if name == RELAYOUT:
            return (layout_of(op.attributes[LAYOUT_ATTR], self._meshes),)
        return (None,) * len(op.results)

    def _add(self, values: Sequence[ir.Value[Any]], layouts: Sequence[Layout | None]) -> None:
        for value, layout in zip(values, layouts, strict=True):
            self.numbers[value] = len(self.layouts)
            self.layouts.append(None if layout is None else layout.closed())
