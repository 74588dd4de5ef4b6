"""Programs compiled for machines that are not here: what was planned beside what their HLO sends.

    python -m benchmarks.ahead_of_time [--suite SUITE] [--size test] [--on tpu gpu] [NAMES...]

SUITE is a folder whose `workloads.py` has `WORKLOADS`; without it, the forms of `long_tail.py` and
two of this file are compiled. TPUs are v5e slices, GPUs H100 hosts, of as many devices as the mesh
of a program has. Bytes are wire bytes per device and call, on a ring; a loop of unknown length
counts as one turn. A TPU sends in bfloat16 what only a matmul reads, and makes an all_reduce of a
reduce_scatter of small pieces. The exit status is 1 if a program does not compile.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import dtensor
from benchmarks.against_jax.workload import Workload, array
from benchmarks.long_tail import ROWS_OF_TABLE, WHOLE
from benchmarks.long_tail_forms import cross_entropy
from benchmarks.suite import command_line, lowered_program, read_suite
from dtensor.compiler.targets.hlo import hlo_collectives

_SLICES = {1: "1x1", 2: "2x2", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16"}
_COLUMNS = ("program", "size", "target", "planned", "HLO", "HLO/plan", "CPU s", "")
_WIDTHS = (27, 5, 14, 14, 14, 9, 7, 0)
Lower = Callable[[str], dtensor.Lowered]  # of a target


def heads(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Attention of six heads."""
    scores = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / 8)
    return jnp.einsum("bhts,bshd->bthd", scores, v)


_HEADS = (array(4, 128, 6, 64), P("x", None, "y"))
UNEVEN = {
    "vocabulary_of_50257": Workload(
        "cross entropy and its gradient, 50257 tokens over 8 devices",
        {"x": 8},
        jax.value_and_grad(cross_entropy, argnums=(0, 1)),
        (array(256, 64), array(64, 50257), array(256, dtype=np.int32)),
        (WHOLE, P(None, "x"), WHOLE),
        (WHOLE, (WHOLE, P(None, "x"))),
    ),
    "six_heads_over_four": Workload(
        "attention of 6 heads over 4 devices",
        {"x": 2, "y": 4},
        heads,
        (_HEADS[0],) * 3,
        (_HEADS[1],) * 3,
        _HEADS[1],
    ),
}


def forms() -> dict[str, Workload]:
    """Programs along a split dimension, one form that users write each."""
    return {name: row.workload for name, row in ROWS_OF_TABLE.items()} | UNEVEN


def lower_form(form: Workload, target: str) -> dtensor.Lowered:
    """One of them, for a target."""
    step = dtensor.jit(
        form.function,
        mesh=dtensor.Mesh(list(form.mesh.items())),
        in_layouts=form.in_specs,
        out_layouts=form.out_specs,
        donate_argnums=form.donate,
    )
    return step.lower(*form.shapes, target=target)


def lower_suite(workload: Any, size: str, target: str) -> Any:
    """A program of a suite, of a size, for a target."""
    mesh = workload.mesh(size)
    return lowered_program(workload.program(size, mesh), mesh, target=target)


def target_of(machine: str, devices: int) -> str:
    """The smallest target of a machine, `tpu` or `gpu`, with these devices.

    Raises:
        KeyError: no slice that is known here has so many.
    """
    if machine == "tpu":
        return f"tpu:v5e:{_SLICES[devices]}"
    return f"gpu:h100:{devices}" if devices <= 8 else f"gpu:h100:{devices // 8}x8"


def measured(name: str, size: str, target: str, lower: Lower) -> dict[str, Any]:
    """What became of one program: bytes of the plan and of the HLO, or the error."""
    row: dict[str, Any] = {"program": name, "size": size, "target": target}
    start = time.process_time()
    try:
        compiled = lower(target).compile()
        text = compiled.as_text()
    except (dtensor.DTensorError, ImportError) as wrong:
        return row | {"error": str(wrong)}
    found = hlo_collectives(text, compiled.mesh.size)
    row |= {"planned": _bytes(compiled.collectives), "in_hlo": _bytes(found)}
    return row | {"kinds": _kinds(found), "cpu_seconds": time.process_time() - start}


def _bytes(collectives: Iterable[Any]) -> float:
    return sum(c.bytes * (c.trip_count or 1) for c in collectives)


def _kinds(collectives: Iterable[Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for c in collectives:
        found[c.kind] = found.get(c.kind, 0.0) + c.bytes * (c.trip_count or 1)
    return dict(sorted(found.items()))


def main(arguments: list[str] | None = None) -> int:
    """Compile and print; exit status 1 if a program fails."""
    parser = command_line(__doc__, needs_suite=False)
    parser.add_argument("--on", nargs="+", default=["tpu", "gpu"], choices=["tpu", "gpu"])
    options = parser.parse_args(arguments)
    programs = forms() if options.suite is None else read_suite(options.suite)
    unknown = [name for name in options.names if name not in programs]
    if unknown:
        parser.error(f"no program {unknown[0]}; there are {', '.join(programs)}")
    if not options.json:
        print(_cells(_COLUMNS))
    rows = []
    for row in _rows({n: programs[n] for n in options.names or programs}, options):
        rows.append(row)
        print(json.dumps(row) if options.json else _line(row), flush=True)
    failed = sum("error" in row for row in rows)
    if not options.json:
        print(f"{len(rows) - failed} of {len(rows)} compile")
    return int(failed > 0)


def _rows(programs: Mapping[str, Any], options: Any) -> Iterator[dict[str, Any]]:
    sizes = ("test", "full") if options.size == "both" else (options.size,)
    for name, found in programs.items():
        if isinstance(found, Workload):
            for machine in options.on:
                target = target_of(machine, math.prod(found.mesh.values()))
                yield measured(name, "", target, lambda t, form=found: lower_form(form, t))
            continue
        for size in sizes:
            for machine in options.on:
                target = target_of(machine, math.prod(found.mesh(size).values()))
                yield measured(name, size, target, lambda t, s=size, f=found: lower_suite(f, s, t))


def _line(row: Mapping[str, Any]) -> str:
    head = [row["program"], row["size"], row["target"]]
    if "error" in row:
        return _cells([*head, "", "", "", "", row["error"][:300]])
    planned, found = row["planned"], row["in_hlo"]
    ratio = f"{found / planned:.3f}" if planned else ("1" if not found else "from none")
    return _cells([*head, f"{planned:,.0f}", f"{found:,.0f}", ratio, f"{row['cpu_seconds']:.1f}"])


def _cells(cells: Any) -> str:
    pairs = zip(cells, _WIDTHS, strict=False)
    return "  ".join(f"{c:>{w}}" if 7 <= w <= 14 else f"{c:<{w}}" for c, w in pairs).rstrip()


if __name__ == "__main__":
    sys.exit(main())
