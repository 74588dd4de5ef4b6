"""How much memory one device needs, from the local program alone."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.errors import MemoryLimitError
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import main_function
from dtensor.passes.graph import OpReader
from dtensor.passes.reports.grouping import common, grouped, times_text, without_numbers

_SHOWN = 5
_EXACT = 0.9  # what is estimated may be a tenth too low: so much of a device is planned for


@dataclass(frozen=True)
class Tensor:
    """A value that takes memory: bytes on one device, and what it is.

    Attributes:
        bytes: how many.
        name: what it is, in words.
        location: the user's line that computes it; empty for arguments, or where it is not known.
        file: the file of that line with its folders; likewise.
        argument: which argument it is; None for others.
    """

    bytes: float
    name: str
    location: str = ""
    file: str = ""
    argument: int | None = None


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

    def groups(self) -> list[tuple[str, list[Tensor]]]:
        """The tensors and their names, those that differ in numbers only together; most first."""
        found = grouped(self.tensors, lambda t: (without_numbers(t.name), t.bytes, t.location))
        named = [
            (f"{times_text(len(group))}{common([t.name for t in group])}", group) for group in found
        ]
        return sorted(named, key=lambda each: -sum(t.bytes for t in each[1]))

    def largest(self) -> str:
        """The largest tensors at the peak, in words."""
        return "; ".join(
            f"{name}: {sum(t.bytes for t in group):.0f} bytes"
            for name, group in self.groups()[:_SHOWN]
        )

    def __str__(self) -> str:
        return f"peak memory: {self.peak_bytes:.0f} bytes per device\n" + "\n".join(
            f"  {t.bytes:.0f} bytes: {t.name}" for t in self.tensors
        )


@dataclass(frozen=True)
class ReportMemoryPass(Pass):
    """Estimates what one device holds at most; refuses a program that needs more than the limit.

    Arguments, results and the values alive at once, in the order in which XLA for CPU runs them:
    what is ready first runs first. A value that XLA fuses into what reads it takes no memory, and
    keeps alive what it is computed from; all_reduces that XLA combines hold operands and results
    together; results take the memory of donated arguments, and what is read of those later is
    copied. More than a device of the machine has is a record, and an error under `strict`. Runs on
    the program of one device, last: what canonicalisation removes takes no memory. Where there is
    neither a limit nor a machine nothing is estimated before somebody asks (`memory_report`).
    """

    name: ClassVar[str] = "dtensor-report-memory"

    max_bytes: int = 0  # refuse a program that needs more; 0: CompileOptions.max_bytes_per_device
    print: bool = False  # write the report to standard error

    def run(self, module: ir.Module, state: PassState) -> None:
        limit = self.max_bytes or state.max_bytes_per_device
        if not (self.print or limit or state.machine):
            return
        from dtensor.passes.reports.over_memory import note_over_memory
        from dtensor.passes.reports.peak import memory_report

        function = main_function(module)
        report = memory_report(function, state.donated, state.argument_names, state.runs_as_written)
        types = OpReader()
        arguments = function.regions[0].blocks[0].arguments
        shapes = [types.type_info(value.type, None).shape for value in arguments]
        has = math.inf if state.machine is None else _EXACT * state.machine.memory_bytes
        state.bytes_over = max(report.peak_bytes - min(limit or math.inf, has), 0.0)
        note_over_memory(state, report, shapes)
        if self.print:
            sys.stderr.write(f"{report}\n")
        if limit and report.peak_bytes > limit:
            raise MemoryLimitError(
                f"the program needs about {report.peak_bytes:.0f} bytes per device, "
                f"max_bytes_per_device is {limit:.0f}; split the largest tensors over more "
                f"axes, or raise the limit: {report.largest()}"
            )
