"""Runs the workloads under dtensor and under `jax.jit`, on eight virtual CPU devices.

    python -m benchmarks.against_jax [--calls N] [--out FOLDER] [NAMES...]

Writes FOLDER/results.json and, where matplotlib is installed, FOLDER/chart.svg, and prints a table.
The exit status is 1 if a result differs from that of one device.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
)
os.environ["JAX_PLATFORMS"] = "cpu"

from rich.progress import track

from benchmarks.against_jax import report
from benchmarks.against_jax.command import TOLERANCE, exit_status, options, wide_console
from benchmarks.against_jax.measure import measure
from benchmarks.against_jax.table import WORKLOADS


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line names; 1 if a result differs from one device."""
    args = options(
        arguments, "benchmarks.against_jax", __doc__, list(WORKLOADS), 30, Path("build/bench")
    )
    console = wide_console()
    rows = {}
    for name in track(args.names, "compiling and running", console=console):
        workload = WORKLOADS[name]
        rows[name] = {"title": workload.title} | measure(workload, args.calls)
    results = {"made_with": _versions(), "calls": args.calls, "workloads": rows}
    args.out.mkdir(parents=True, exist_ok=True)
    written = args.out / "results.json"
    written.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    console.print(report.rich_table(results))
    console.print(report.summary(results))
    console.print(f"{written}{report.write_chart(results, args.out / 'chart.svg')}")
    wrong = [
        f"{name} under {compiler}"
        for name, row in rows.items()
        for compiler in report.COMPILERS
        if not row[compiler]["largest_difference"] <= TOLERANCE
    ]
    return exit_status(console, wrong)


def _versions() -> dict[str, str]:
    names = ("dtensor-mlir", "jax", "jaxlib")
    return {name: importlib.metadata.version(name) for name in names}


if __name__ == "__main__":
    sys.exit(main())
