"""The memory that a plan says one device needs, beside XLA's count, for a suite's programs.

    python benchmarks/memory.py --suite SUITE [--size both] [--tag train] [--top 3] [NAMES...]

SUITE is a folder whose `workloads.py` has `WORKLOADS`; `THIRDPARTY` of `workloads_thirdparty.py`
is read too where packages are installed. Planned is `compiled.memory.peak_bytes`; XLA's is
`memory_analysis()` of the same program compiled for virtual devices of the CPU: arguments, results
and temporaries, without what results take over from donated arguments. Under each program stand the
largest tensors of the plan's peak.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dtensor
from benchmarks.suite import command_line, lowered_program, parsed

DEVICES = 64
_COLUMNS = ("program", "size", "mesh", "planned", "XLA", "ratio", "of it temporary")
_WIDTHS = (28, 5, 6, 15, 15, 6, 15)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; exit status 1 if a program fails."""
    parser = command_line(__doc__)
    parser.add_argument("--tag", default="train", help="if none is named: of this tag, or 'all'")
    parser.add_argument("--top", type=int, default=3, help="tensors to name of each peak")
    options, workloads = parsed(parser, arguments)
    names = options.names or [
        name for name, w in workloads.items() if options.tag in ("all", *w.tags)
    ]
    rows = []
    if not options.json:
        print(_cells(_COLUMNS))
    for size in options.sizes:
        for name in names:
            rows.append(measured(workloads[name], name, size, options.top))
            print(json.dumps(rows[-1]) if options.json else _lines(rows[-1]), flush=True)
    if not options.json:
        print(_worst(rows))
    return int(any("error" in row for row in rows))


def measured(workload: Any, name: str, size: str, top: int = 3) -> dict[str, Any]:
    """Planned bytes and XLA's of one program, and the largest tensors at the planned peak."""
    mesh = workload.mesh(size)
    row: dict[str, Any] = {"program": name, "size": size, "mesh": mesh}
    try:
        compiled = lowered_program(workload.program(size, mesh), mesh).compile()
    except (dtensor.DTensorError, ImportError) as wrong:
        return row | {"error": str(wrong)}
    planned, xla = compiled.memory, compiled.memory_analysis()
    needs = xla.argument_size_in_bytes + xla.output_size_in_bytes - xla.alias_size_in_bytes
    needs += xla.temp_size_in_bytes
    row |= {"planned": planned.peak_bytes, "xla": needs, "ratio": planned.peak_bytes / needs}
    row |= {"temporary": xla.temp_size_in_bytes}
    return row | {"tensors": [f"{t.bytes:,.0f} {t.name}" for t in planned.tensors[:top]]}


def _lines(row: Mapping[str, Any]) -> str:
    mesh = "x".join(map(str, row["mesh"].values()))
    head = [row["program"], row["size"], mesh]
    if "error" in row:
        return _cells([*head, row["error"][:80]])
    sizes = [f"{row['planned']:,.0f}", f"{row['xla']:,.0f}", f"{row['ratio']:.3f}"]
    lines = [_cells([*head, *sizes, f"{row['temporary']:,.0f}"])]
    return "\n".join([*lines, *(f"    {tensor}" for tensor in row["tensors"])])


def _cells(cells: Any) -> str:
    pairs = zip(cells, _WIDTHS, strict=False)
    return "  ".join(f"{c:<{w}}" if w in (28, 5) else f"{c:>{w}}" for c, w in pairs).rstrip()


def _worst(rows: list[dict[str, Any]]) -> str:
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if not ratios:
        return ""
    near = sum(0.9 <= ratio <= 1.1 for ratio in ratios)
    return (
        f"{near} of {len(ratios)} within a tenth, from {min(ratios):.3f} to {max(ratios):.3f} of "
        "what XLA needs"
    )


if __name__ == "__main__":
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=DEVICES)
    sys.exit(main())
