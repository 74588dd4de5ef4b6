"""How much memory one device needs, from the local program alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dtensor.dialect.errors import MemoryLimitError
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import main_function
from dtensor.passes.graph import OpReader
from dtensor.passes.locations import location_text
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CONTROL, captured, terminator

_SHOWN = 5


@dataclass(frozen=True)
class Tensor:
    """A value that takes memory: bytes on one device, and what it is."""

    bytes: float
    name: str


@dataclass(frozen=True)
class MemoryReport:
    """What one device holds when it holds most.

    Attributes:
        peak_bytes: bytes of arguments, results and temporaries together.
        argument_bytes: bytes of the arguments, which are there all the time.
        tensors: the arguments and what else is alive at the peak, the largest first.
    """

    peak_bytes: float
    argument_bytes: float
    tensors: tuple[Tensor, ...]

    def largest(self) -> str:
        """The largest tensors at the peak, in words."""
        return "; ".join(f"{t.name}: {t.bytes:.0f} bytes" for t in self.tensors[:_SHOWN])

    def __str__(self) -> str:
        return f"peak memory: {self.peak_bytes:.0f} bytes per device\n" + "\n".join(
            f"  {t.bytes:.0f} bytes: {t.name}" for t in self.tensors
        )


@dataclass(frozen=True)
class ReportMemoryPass(Pass):
    """Estimates what one device holds at most; refuses a program that needs more than the limit.

    Arguments and results, and the values alive at once, those that XLA fuses left out. Runs on the
    program of one device, last: what canonicalisation removes takes no memory.
    """

    name: ClassVar[str] = "dtensor-report-memory"

    max_bytes: int = 0  # refuse a program that needs more; 0: CompileOptions.max_bytes_per_device
    print: bool = False  # write the report to standard error

    def run(self, module: ir.Module, state: PassState) -> None:
        report = state.memory_report = memory_report(main_function(module), state.donated)
        if self.print:
            sys.stderr.write(f"{report}\n")
        limit = self.max_bytes or state.max_bytes_per_device
        if limit and report.peak_bytes > limit:
            raise MemoryLimitError(
                f"the program needs about {report.peak_bytes:.0f} bytes per device, "
                f"max_bytes_per_device is {limit}; split the largest tensors over more axes, or "
                f"raise the limit: {report.largest()}"
            )


def memory_report(function: ir.Operation, donated: Sequence[int] = ()) -> MemoryReport:
    """What a function of local shapes holds at most.

    Args:
        function: the program of one device.
        donated: indices of arguments whose memory the results may take.
    """
    return _Liveness().function(function, donated)


class _Liveness:
    def __init__(self) -> None:
        self._types = OpReader()

    def _bytes(self, value: ir.Value[Any]) -> float:
        return self._types.type_info(value.type, None).bytes

    def function(self, function: ir.Operation, donated: Sequence[int]) -> MemoryReport:
        block = function.regions[0].blocks[0]
        arguments = [
            Tensor(self._bytes(a), f"argument {i} {a.type}") for i, a in enumerate(block.arguments)
        ]
        peak, alive = self._peak(block)
        results = sum(self._bytes(v) for v in terminator(block).operands)
        reused = sum(arguments[i].bytes for i in donated if i < len(arguments))
        held = sum(t.bytes for t in arguments)
        temporaries = [Tensor(self._bytes(v), _described(v)) for v in alive]
        tensors = sorted([*arguments, *temporaries], key=lambda t: -t.bytes)
        return MemoryReport(held + max(peak, results - reused), held, tuple(tensors))

    def _peak(self, block: ir.Block) -> tuple[float, list[ir.Value[Any]]]:
        """The largest sum of values alive at once in a block, and those values."""
        operations = [view.operation for view in block.operations]
        last: dict[ir.Value[Any], int] = {}
        made = {value: None for op in operations for value in op.results}
        for i, op in enumerate(operations):
            inside = captured(op, made) if op.name in CONTROL else []
            last.update(dict.fromkeys([*op.operands, *inside], i))
        alive: dict[ir.Value[Any], float] = {}
        held, peak, at_peak = 0.0, 0.0, list[ir.Value[Any]]()
        dying: dict[int, list[ir.Value[Any]]] = {}
        for i, op in enumerate(operations):
            name, inside_bytes = op.name, 0.0
            if name in CONTROL:
                inside_bytes = max((self._peak(r.blocks[0])[0] for r in op.regions), default=0.0)
            if not _is_fused(name):
                for value in op.results:
                    end = last.get(value)
                    if end is not None:
                        held += self._bytes(value)
                        dying.setdefault(end, []).append(value)
                        alive[value] = self._bytes(value)
            if held + inside_bytes > peak:
                peak, at_peak = held + inside_bytes, list(alive)
            for dead in dying.pop(i, ()):
                held -= alive.pop(dead)
        return peak, at_peak


def _is_fused(name: str) -> bool:
    """Whether XLA computes an op inside what reads it, or where it is read."""
    definition = opdef(name)
    return definition.fuses or definition.rematerialisable


def _described(value: ir.Value[Any]) -> str:
    """`dot_general tensor<4x64xf32> at train.py:41:7`."""
    op = ir.OpResult(value).owner.operation
    where = location_text(op.location)
    return f"{op.name.split('.')[-1]} {value.type}{' at ' + where if where else ''}"
