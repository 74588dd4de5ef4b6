"""What each rewrite of slices, loops and the like is worth: plans with it and without.

    python -m benchmarks.ablation [--out FILE.json] [PROGRAMS...]

The programs are those of `benchmarks.long_tail` and `benchmarks.against_jax`; nothing runs. A
rewrite that changes a program is left out of the pipeline, alone, and the program planned again. A
rewrite that changes none, or that none needs, is for programs that are not here, or for none.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import jax
from jax.sharding import AxisType
from rich.progress import track
from rich.table import Table

import dtensor
from benchmarks.against_jax.command import options, wide_console
from benchmarks.against_jax.measure import shardings
from benchmarks.against_jax.table import WORKLOADS
from benchmarks.against_jax.workload import Workload
from benchmarks.long_tail import ROWS_OF_TABLE
from dtensor.passes.cuts.fuse import FuseCutsPass
from dtensor.passes.forms.find import FindFormsPass
from dtensor.passes.pipelines import pipeline_text
from dtensor.passes.rewriting.table import RewritesPass

_PASSES: tuple[type[RewritesPass], ...] = (FindFormsPass, FuseCutsPass)
_PROGRAMS = {name: row.workload for name, row in ROWS_OF_TABLE.items()} | WORKLOADS


@dataclass(frozen=True)
class Effect:
    """A program planned with a rewrite and without it: bytes sent and flops, per device."""

    program: str
    bytes: float
    flops: float
    bytes_without: float
    flops_without: float

    @property
    def worth(self) -> float:
        """How many times as much is sent without it, or computed if that is more."""
        return max(
            (after + 1) / (before + 1)
            for before, after in (
                (self.bytes, self.bytes_without),
                (self.flops, self.flops_without),
            )
        )


def _planned(workload: Workload, without: tuple[str, str] | None = None) -> Any:
    """The program as it is planned; `without` names a pass and a rewrite of it to leave out."""
    mesh = jax.make_mesh(
        tuple(workload.mesh.values()),
        tuple(workload.mesh),
        axis_types=(AxisType.Auto,) * len(workload.mesh),
    )
    pipeline = None
    if without is not None:
        name, rewrite = without
        pipeline = pipeline_text("dtensor-spmd").replace(name, f'{name}{{without="{rewrite}"}}')
    return dtensor.jit(
        workload.function,
        mesh=mesh,
        in_layouts=shardings(workload.in_specs, mesh),
        out_layouts=shardings(workload.out_specs, mesh),
        donate_argnums=workload.donate,
        options=dtensor.CompileOptions(pipeline=pipeline),
    ).lower(*workload.shapes)


def effects(name: str, workload: Workload) -> dict[str, Effect]:
    """What each rewrite that changes a program does for it."""
    whole = _planned(workload)
    found = {}
    changed = set(whole.ledger["rewrites"])
    for of_pass in _PASSES:
        for rewrite in dict.fromkeys(each.file for each in of_pass.TABLE):
            if rewrite in changed:
                bare = _planned(workload, (of_pass.name, rewrite))
                found[rewrite] = Effect(
                    name, whole.wire_bytes, whole.local_flops, bare.wire_bytes, bare.local_flops
                )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Plan what the command line names."""
    args = options(arguments, "benchmarks.ablation", __doc__, list(_PROGRAMS), None, None)
    console = wide_console()
    found: dict[str, list[Effect]] = defaultdict(list)
    for name in track(args.names, "planning", console=console):
        for rewrite, effect in effects(name, _PROGRAMS[name]).items():
            found[rewrite].append(effect)
    table = Table("rewrite", "changes", "needed by", "worth most to", "bytes", "without")
    for of_pass in _PASSES:
        for rewrite in dict.fromkeys(each.file for each in of_pass.TABLE):
            alike = sorted(found[rewrite], key=lambda each: -each.worth)
            needed = [each for each in alike if each.worth > 1.01]
            cells = ["", "", ""]
            if needed:
                most = needed[0]
                cells = [most.program, f"{most.bytes:,.0f}", f"{most.bytes_without:,.0f}"]
            table.add_row(rewrite, str(len(alike)), str(len(needed)), *cells)
    console.print(table)
    if args.out:
        written = {name: [asdict(each) for each in alike] for name, alike in found.items()}
        args.out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
