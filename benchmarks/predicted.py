"""Whether what is planned is sent: the bytes of a suite's programs in three places.

    python benchmarks/predicted.py --suite SUITE [--size test] [NAMES...]

SUITE is a folder whose `workloads.py` has `WORKLOADS`; `THIRDPARTY` of `workloads_thirdparty.py`
is read too where packages are installed. Wire bytes per device and call: `planner` is what the
planner says its plan sends, `program` the collectives of the program of one device, and `HLO`
those that XLA left in the optimised program. Plans are made for a network on which a collective
costs its bytes. Where program and HLO differ by more than one per cent, the kinds of collectives
that do stand at the end, with the bytes of both. A loop of unknown length counts as one turn, which
the planner takes for ten. It counts more than the program sends where a relayout that was asked for
is put off until less is to be moved.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dtensor
from benchmarks.suite import command_line, lowered_program, parsed
from dtensor.compiler.targets.hlo import hlo_collectives
from dtensor.passes.cost.model import CostModel, Link

DEVICES = 64
_COLUMNS = ("program", "size", "mesh", "planner", "program", "HLO", "prog/plan", "HLO/prog", "")
_WIDTHS = (27, 5, 5, 14, 14, 14, 9, 9, 0)
_CLOSE = 0.01
_PERMUTES = ("halo_exchange", "shard_permute")  # what the HLO calls collective_permute
# Collectives cost their bytes; of plans of equal bytes that with fewer collectives is cheaper.
_BYTES_PER_SECOND = 1e11
_COST = CostModel(Link(alpha=1e-13, bytes_per_second=_BYTES_PER_SECOND))


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; exit status 1 if a program fails."""
    parser = command_line(__doc__)
    options, workloads = parsed(parser, arguments)
    rows = []
    if not options.json:
        print(_cells(_COLUMNS))
    for size in options.sizes:
        for name in options.names or workloads:
            rows.append(measured(workloads[name], name, size))
            print(json.dumps(rows[-1]) if options.json else _line(rows[-1]), flush=True)
    if not options.json:
        print(_summary(rows))
    return int(any("error" in row for row in rows))


def measured(workload: Any, name: str, size: str) -> dict[str, Any]:
    """The bytes that one program sends: by the planner, by the program and by the HLO."""
    mesh = workload.mesh(size)
    row: dict[str, Any] = {"program": name, "size": size, "mesh": mesh}
    try:
        options = dtensor.CompileOptions(cost=_COST)
        compiled = lowered_program(workload.program(size, mesh), mesh, options).compile()
    except (dtensor.DTensorError, ImportError) as wrong:
        return row | {"error": str(wrong)}
    plan = next(r for r in compiled.ledger["records"] if r["kind"] == "plan")
    program = _by_kind(compiled.collectives)
    hlo = _by_kind(hlo_collectives(compiled.as_text(), compiled.mesh.size))
    row |= {"planner": plan["communication"] * _BYTES_PER_SECOND}
    row |= {"in_program": sum(program.values()), "in_hlo": sum(hlo.values())}
    other = {
        kind: (program.get(kind, 0.0), hlo.get(kind, 0.0))
        for kind in sorted({*program, *hlo})
        if abs(_ratio(hlo.get(kind, 0.0), program.get(kind, 0.0)) - 1.0) > _CLOSE
    }
    return row | {"differ": other}


def _by_kind(collectives: Iterable[Any]) -> dict[str, float]:
    """Wire bytes per device and call of each kind."""
    found: dict[str, float] = {}
    for c in collectives:
        kind = "collective_permute" if c.kind in _PERMUTES else c.kind
        found[kind] = found.get(kind, 0.0) + c.bytes * (c.trip_count or 1)
    return found


def _ratio(size: float, to: float) -> float:
    return size / to if to else (float("inf") if size > 1.0 else 1.0)


def _line(row: Mapping[str, Any]) -> str:
    mesh = "x".join(map(str, row["mesh"].values()))
    head = [row["program"], row["size"], mesh]
    if "error" in row:
        return _cells([*head, row["error"][:80]])
    ratios = _ratio(row["in_program"], row["planner"]), _ratio(row["in_hlo"], row["in_program"])
    differ = [f"{kind} {a:,.0f} {b:,.0f}" for kind, (a, b) in row["differ"].items()]
    sizes = [f"{row[key]:,.0f}" for key in ("planner", "in_program", "in_hlo")]
    why = "; ".join(differ) if abs(ratios[1] - 1.0) > _CLOSE else ""
    return _cells([*head, *sizes, *(f"{ratio:.4f}" for ratio in ratios), why])


def _cells(cells: Any) -> str:
    pairs = zip(cells, _WIDTHS, strict=False)
    return "  ".join(f"{c:>{w}}" if w in (14, 9) else f"{c:<{w}}" for c, w in pairs).rstrip()


def _summary(rows: list[dict[str, Any]]) -> str:
    whole = [row for row in rows if "error" not in row]
    planned = [_ratio(row["in_program"], row["planner"]) for row in whole]
    sent = [_ratio(row["in_hlo"], row["in_program"]) for row in whole]
    near = [sum(abs(ratio - 1.0) <= _CLOSE for ratio in ratios) for ratios in (planned, sent)]
    return (
        f"of {len(whole)} programs {near[0]} send what the planner counted within one per cent, "
        f"and the HLO of {near[1]} what the program says"
    )


if __name__ == "__main__":
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=DEVICES)
    sys.exit(main())
