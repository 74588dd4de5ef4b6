"""How much memory one device needs, from the local program alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dtensor.dialect.errors import MemoryLimitError
from dtensor.dialect.mlir import ir
from dtensor.passes.graph import element_bytes
from dtensor.passes.locations import location_text

# XLA fuses these into what reads them; they take no memory of their own.
_FUSED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "add subtract multiply divide maximum minimum negate abs exponential log tanh rsqrt sqrt "
        "power compare select convert broadcast_in_dim reshape iota constant and or not xor clamp "
        "logistic slice is_finite shift_left shift_right_logical sign floor ceil"
    ).split()
)


@dataclass(frozen=True)
class Tensor:
    """A value that takes memory: bytes on one device, and what it is."""

    bytes: float
    name: str


def check_memory(function: ir.Operation, limit: int, donated: Sequence[int]) -> None:
    """Refuse a program that needs more than `limit` bytes on one device.

    An estimate: arguments and results, and the values alive at once, element-wise ones fused.

    Raises:
        MemoryLimitError: the estimate is above the limit; the message names the largest tensors.
    """
    block = function.regions[0].blocks[0]
    arguments = [
        Tensor(_bytes(a.type), f"argument {i} {a.type}") for i, a in enumerate(block.arguments)
    ]
    peak, alive = _peak(block)
    results = [
        Tensor(_bytes(v.type), f"result {i} {v.type}")
        for i, v in enumerate(block.operations[len(block.operations) - 1].operands)
    ]
    reused = sum(arguments[i].bytes for i in donated if i < len(arguments))
    total = sum(t.bytes for t in arguments)
    total += max(peak, sum(t.bytes for t in results) - reused)
    if total <= limit:
        return
    largest = sorted([*arguments, *alive], key=lambda t: -t.bytes)[:5]
    names = "; ".join(f"{t.name}: {t.bytes:.0f} bytes" for t in largest)
    raise MemoryLimitError(
        f"the program needs about {total:.0f} bytes per device, max_bytes_per_device is {limit}; "
        f"split the largest tensors over more axes, or raise the limit: {names}"
    )


def _bytes(type_: ir.Type) -> float:
    try:
        tensor = ir.RankedTensorType(type_)
    except ValueError:
        return 0.0
    return math.prod(tensor.shape) * element_bytes(str(tensor.element_type))


def _peak(block: ir.Block) -> tuple[float, list[Tensor]]:
    """The largest sum of values alive at once in a block, and those values."""
    operations = [view.operation for view in block.operations]
    last: dict[ir.Value[Any], int] = {}
    for i, op in enumerate(operations):
        last.update(dict.fromkeys([*op.operands, *_captured(op)], i))
    alive: dict[ir.Value[Any], Tensor] = {}
    peak, at_peak = 0.0, list[Tensor]()
    for i, op in enumerate(operations):
        inside = 0.0
        if op.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if"):
            inside = max((_peak(r.blocks[0])[0] for r in op.regions), default=0.0)
        if op.name not in _FUSED:
            for value in op.results:
                if value in last:
                    where = location_text(op.location)
                    name = f"{op.name.split('.')[-1]} {value.type}{' at ' + where if where else ''}"
                    alive[value] = Tensor(_bytes(value.type), name)
        now = sum(t.bytes for t in alive.values()) + inside
        if now > peak:
            peak, at_peak = now, list(alive.values())
        for dead in [v for v in alive if last[v] <= i]:
            del alive[dead]
    return peak, at_peak


def _captured(op: ir.Operation) -> list[ir.Value[Any]]:
    """Values from outside that the regions of a loop or branch read."""
    if op.name not in ("stablehlo.while", "stablehlo.case", "stablehlo.if"):
        return []
    found = []
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                found += list(view.operation.operands)
                found += _captured(view.operation)
    return found
