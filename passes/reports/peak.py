"""What a function of local shapes holds when it holds most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtensor.dialect.diagnostics import place_of
from dtensor.dialect.mlir import ir, terminator
from dtensor.passes.graph import OpReader
from dtensor.passes.locations import location_text
from dtensor.passes.reports.buffers import Need, buffers_needed
from dtensor.passes.reports.kernels import Reordered
from dtensor.passes.reports.memory import MemoryReport, Tensor


def memory_report(
    function: ir.Operation, donated: Sequence[int], names: Sequence[str], as_written: bool
) -> MemoryReport:
    """What a function of local shapes holds at most.

    The results may take the memory of the `donated` arguments; without names, arguments are called
    by their numbers. `as_written` is the order of kernels: see `Kernels.ordered`.
    """
    types, named = OpReader(), dict(enumerate(names))
    block = function.regions[0].blocks[0]
    arguments = [
        Tensor(
            types.type_info(value.type, None).bytes,
            f"argument {named.get(i) or i} {value.type}",
            argument=i,
        )
        for i, value in enumerate(block.arguments)
    ]
    passed = list(terminator(block).operands)
    need = need_of(function, donated, types, as_written)
    new = [
        Tensor(types.type_info(passed[j].type, None).bytes, *_described(passed[j], f"result {j}"))
        for j in need.new_results
    ]
    inside = [
        Tensor(size, *_described(v.of if isinstance(v, Reordered) else v, "copy of argument"))
        for v, size in need.alive
    ]
    held = sum(t.bytes for t in arguments)
    tensors = sorted([*arguments, *new, *inside], key=lambda t: -t.bytes)
    return MemoryReport(held + sum(t.bytes for t in new) + need.bytes, held, tuple(tensors))


def need_of(
    function: ir.Operation, donated: Sequence[int], types: OpReader, as_written: bool
) -> Need:
    """What a function of local shapes needs beside its arguments; see `memory_report`."""
    block = function.regions[0].blocks[0]
    pairs = _pairs(block, list(terminator(block).operands), donated)
    return buffers_needed(block, pairs, types, as_written)


def _pairs(
    block: ir.Block, passed: Sequence[ir.Value[Any]], donated: Sequence[int]
) -> dict[int, int]:
    """Per result the donated argument that it takes the memory of: the next one of its type."""
    free: dict[ir.Type, list[int]] = {}
    for i in reversed(donated):
        if i < len(block.arguments):
            free.setdefault(block.arguments[i].type, []).append(i)
    pairs = {}
    for j, value in enumerate(passed):
        if free.get(value.type):
            pairs[j] = free[value.type].pop()
    return pairs


def _described(value: ir.Value[Any], else_: str) -> tuple[str, str, str]:
    """`dot_general tensor<4x64xf32> at train.py:41:7`; the line by itself; and its file."""
    if isinstance(value.owner, ir.Block):
        return f"{else_} {value.type}", "", ""
    op = ir.OpResult(value).owner.operation
    where, place = location_text(op.location), place_of(op.location)
    name = f"{op.name.split('.')[-1]} {value.type}{' at ' + where if where else ''}"
    return name, where, "" if place is None else place.file
