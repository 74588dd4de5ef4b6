"""What is planned of a program: the same for one that is lowered and for one that is compiled.

What answers questions about a plan is read when somebody asks.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtensor.compiler.program import ArrayInfo
from dtensor.dialect.layout import Layout

if TYPE_CHECKING:
    from dtensor.compiler.driver import DriverResult
    from dtensor.compiler.jax_frontend import TracedArray
    from dtensor.compiler.source import Source
    from dtensor.passes.reports.cost import Collective
    from dtensor.passes.reports.memory import MemoryReport


class Planned(ABC):
    """A program after the passes; nothing here needs a device."""

    _source: Source

    @abstractmethod
    def _plan(self) -> DriverResult:
        """What the passes made of the program."""

    def __str__(self) -> str:
        """Totals, warnings, and the collectives in groups of equal ones, most bytes first."""
        from dtensor.compiler.summary import summary

        return summary(self._source.short(), self._plan(), self._measured_memory())

    def _measured_memory(self) -> Any:
        """XLA's count of bytes, where there is one."""
        return None

    @property
    def collectives(self) -> Sequence[Collective]:
        """The planned collectives, in program order.

        Each has `kind`, `mesh_axes`, `dtype`, `shape`, `bytes` (wire bytes per device of one
        execution), `trip_count` (executions per call), `location` and `reason`.
        """
        return self._plan().collectives

    @property
    def wire_bytes(self) -> float:
        """Planned wire bytes per device and call; a loop of unknown length counts as one turn.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(np.ones((4, 8))).wire_bytes
            32.0
        """
        return float(sum(c.bytes * (c.trip_count or 1) for c in self.collectives))

    @property
    def local_flops(self) -> float:
        """Floating-point operations per device and call, loops counted in full."""
        return float(self._plan().local_flops)

    @property
    def memory(self) -> MemoryReport | None:
        """What one device holds at most, by the plan: `peak_bytes`, `argument_bytes`, `tensors`.

        None if a pipeline of one's own leaves dtensor-report-memory out.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(np.ones((4, 8))).memory.argument_bytes
            64.0
        """
        return self._plan().memory

    def explain(self, what: str | None = None, top: int | None = None) -> str:
        """Why things are laid out as they are, as text.

        Args:
            what: name of an argument or result, such as `params['w']`, or its last key alone, `w`;
                or a collective, as `collective 3`; or `memory`; None explains all of them.
            top: instead of all, this many groups of equal collectives, those with the most bytes,
                each on a line.

        Raises:
            CompileError: nothing has this name, or several things do.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> print(step.lower(np.ones((4, 8))).explain("collective 0"))
            collective 0: all_reduce over x of f32 8, 32 bytes per device, once
              at ...
              because reduce over what x splits leaves parts of a sum, result must have [{}]
              instead reduce could give it as [{}], for ... more
        """
        from dtensor.compiler.explain import explain

        return explain(*self.borders(), self._plan(), what, top)

    @property
    def in_layouts(self) -> Any:
        """The layout of each argument: `(args, kwargs)` with layouts for leaves.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(np.ones((4, 8))).in_layouts
            ((Layout(['x', UNSHARDED], Mesh(x=2, y=4)),), {})
        """
        layouts, source = [info.type.layout for info in self.borders()[0]], self._source
        if source.variables is not None:
            count = source.in_tree.num_leaves
            layouts = [layouts[i] for i in source.variables.argument_of_leaf(count)]
        return source.in_tree.unflatten(layouts)

    @property
    def out_layouts(self) -> Any:
        """The layout of each result, in the structure the function returns."""
        own = self.borders()[1][: self._source.out_tree.num_leaves]
        return self._source.out_tree.unflatten([info.type.layout for info in own])

    def borders(self) -> tuple[tuple[ArrayInfo, ...], tuple[ArrayInfo, ...]]:
        """The arguments and the results, with their layouts."""
        source, result = self._source, self._plan()
        return (
            infos(source.args, result.arg_layouts),
            infos(source.results, result.result_layouts),
        )

    def lock(self, path: str | os.PathLike[str]) -> None:
        """Write the plan's communication to a file, for `check_lock` and `dtensor-opt --check`.

        Args:
            path: the file; see docs/budgets.md.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(np.ones((4, 8))).lock("step.lock")
        """
        from dtensor.passes.reports.lock import lock_text

        file = _file(path, "lock")
        file.write_text(lock_text(self.collectives, self._plan().mesh), encoding="utf-8")

    def check_lock(self, path: str | os.PathLike[str]) -> None:
        """Compare the plan's communication with what `lock` wrote.

        Raises:
            BudgetError: more, less or other is sent than then, or the file is no lock file.
            OSError: the file cannot be read.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> lowered = step.lower(np.ones((4, 8)))
            >>> lowered.lock("step.lock")
            >>> lowered.check_lock("step.lock")  # raises nothing: it sends the same
        """
        from dtensor.passes.reports.lock import check_lock

        file = _file(path, "check_lock")
        if not file.exists():
            raise FileNotFoundError(
                f"there is no lock file {file}; make one with compiled.lock(file)"
            )
        text = file.read_text(encoding="utf-8", errors="replace")
        check_lock(text, self.collectives, self._plan().mesh, str(file))

    def report(self, path: str | os.PathLike[str], other: Planned | None = None) -> None:
        """Write the plan as a page for a browser: one file, which needs no network.

        Totals and warnings; the lines of the program with the bytes that they send and hold; the
        collectives with their reasons; arguments and results as pictures; memory at the peak.

        Args:
            path: the file, such as "report.html"; one that is there is written over.
            other: another Lowered or Compiled, to show beside this one.

        Raises:
            OSError: the file cannot be written.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(np.ones((4, 8))).report("report.html")  # open it in a browser
        """
        from dtensor.compiler.report.page import report_html

        _file(path, "report").write_text(report_html(self, other), encoding="utf-8")

    def _repr_html_(self) -> str:
        """Totals, warnings and the largest collectives, in notebooks."""
        from dtensor.compiler.report.notebook import notebook_html

        return notebook_html(self)

    @property
    def ledger(self) -> Mapping[str, Any]:
        """The records of what was decided and why, as JSON values; see docs/ledger.md."""
        records: Mapping[str, Any] = self._plan().ledger.to_json()
        return records


def _file(path: Any, method: str) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{method} needs the name of a file, got {path!r}")
    return Path(path)


def infos(arrays: Sequence[TracedArray], layouts: Sequence[Layout]) -> tuple[ArrayInfo, ...]:
    """What arguments or results are, with the layouts they have."""
    return tuple(
        ArrayInfo(array.shape, array.dtype, layout, array.name, array.weak_type, array.key)
        for array, layout in zip(arrays, layouts, strict=True)
    )
