"""How near the cheapest plan the planner comes: cost, lower bound and gap of a suite's programs.

    python benchmarks/optimality.py --suite SUITE [--size both] [--axes 3] [NAMES...]

SUITE is a folder whose `workloads.py` has `WORKLOADS`; `THIRDPARTY` of `workloads_thirdparty.py`
is read too where packages are installed. The costs are the planner's own: microseconds of one
execution on the machine of `--machine`. No plan from the planner's strategies in which equal layers
are laid out alike costs less than the bound; none is known where there are too many strategies for
that. With `--axes 3` the programs run over three mesh axes and more: the largest axis stands as
several, and layouts that name it name all of them. Planning is all of dtensor-propagate, in CPU
seconds: `plan` as it stands, `bound` with the bound. Nothing is compiled by XLA.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dtensor
from benchmarks.suite import command_line, in_parts, lowered_program, parsed
from dtensor.passes.pipelines import pipeline_text

DEVICES = 64
_PASS = "dtensor-propagate"
_COLUMNS = ("program", "size", "mesh", "cost us", "bound us", "gap", "plan s", "bound s")


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; exit status 1 if a program fails."""
    parser = command_line(__doc__)
    parser.add_argument("--effort", default="normal", help="as CompileOptions takes it")
    parser.add_argument("--axes", type=int, default=0, help="mesh axes of each program, at least")
    parser.add_argument("--machine", help="machine to plan for; bytes alone if none is given")
    options, workloads = parsed(parser, arguments)
    rows = []
    for size in options.sizes:
        for name in options.names or workloads:
            row = measured(
                workloads[name], name, size, options.effort, options.machine, options.axes
            )
            rows.append(row)
            print(json.dumps(row) if options.json else _line(row, not rows[1:]), flush=True)
    if not options.json:
        print(_worst(rows))
    return int(any("error" in row for row in rows))


def measured(
    workload: Any,
    name: str,
    size: str,
    effort: str = "normal",
    machine: str | None = None,
    axes: int = 0,
) -> dict[str, Any]:
    """Cost, bound and gap of one program, and the CPU seconds it takes to plan."""
    mesh = dict(chain.from_iterable(in_parts(workload.mesh(size), axes).values()))
    row: dict[str, Any] = {"program": name, "size": size, "mesh": mesh, "axes": len(mesh)}
    try:
        plain = _planned(workload, size, effort, machine, axes, bound=False)
        plan = _planned(workload, size, effort, machine, axes, bound=True)
    except (dtensor.DTensorError, ImportError) as wrong:
        return row | {"error": str(wrong)}
    cost, bound = plan["seconds"], plan["bound"]
    row |= {"cost_us": cost * 1e6, "plan_s": plain["cpu"], "bound_s": plan["cpu"]}
    if cost and not bound:  # not known
        return row
    return row | {"bound_us": bound * 1e6, "gap": 1.0 - bound / cost if cost else 0.0}


def _planned(
    workload: Any, size: str, effort: str, machine: str | None, axes: int, bound: bool
) -> dict[str, float]:
    """Seconds and bound of the plan, and CPU seconds of the pass."""
    spmd = pipeline_text("dtensor-spmd")
    options = dtensor.CompileOptions(
        machine=machine,
        effort=effort,
        pipeline=re.sub(rf"\b{_PASS}\b", f"{_PASS}{{bound=true}}", spmd) if bound else None,
    )
    mesh = workload.mesh(size)
    lowered = lowered_program(workload.program(size, mesh), mesh, options, count=axes)
    taken: dict[str, float] = {}
    last = time.process_time()

    def after(name: str, _: object) -> None:
        nonlocal last
        taken[name] = time.process_time() - last
        last = time.process_time()

    result = lowered._run(after)  # the planner's own record; `Compiled.ledger` needs XLA
    (plan,) = result.ledger.of_kind("plan")
    return {"seconds": plan.seconds, "bound": plan.bound, "cpu": taken[_PASS]}


def _line(row: Mapping[str, Any], first: bool) -> str:
    mesh = "x".join(map(str, row["mesh"].values()))
    cells = [row["program"], row["size"], mesh]
    if "error" in row:
        cells.append(row["error"][:80])
    else:
        known = [f"{row['bound_us']:.6g}", f"{row['gap']:.3%}"] if "gap" in row else ["-", "-"]
        cells += [f"{row['cost_us']:.6g}", *known]
        cells += [f"{row['plan_s']:.2f}", f"{row['bound_s']:.2f}"]
    widths = (28, 5, 6, 10, 10, 8, 7, 7)
    lines = [_COLUMNS, cells] if first else [cells]
    return "\n".join(
        "  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=False)) for line in lines
    )


def _worst(rows: list[dict[str, Any]]) -> str:
    lines = []
    for axes in sorted({row["axes"] for row in rows}):
        gaps = [row["gap"] for row in rows if row["axes"] == axes and "gap" in row]
        if gaps:
            exact = sum(gap < 1e-6 for gap in gaps)
            lines.append(
                f"{axes} mesh axes: {len(gaps)} programs, {exact} proven cheapest, "
                f"largest gap {max(gaps):.3%}, mean {sum(gaps) / len(gaps):.3%}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=DEVICES)
    sys.exit(main())
