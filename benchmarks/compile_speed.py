"""CPU microseconds per StableHLO op of every stage of the pipeline, on a GPT training step.

    python benchmarks/compile_speed.py [--layers 4 12 24] [--devices 8 64 512] [--repeat 3]
                                       [--effort fast]

Prints one row per program. An op is one of the module as JAX lowers it, before anything is inlined
or removed. `own` is the sum of dtensor's passes, the ledger on, with one verification of the
module at each end; JAX's tracing, reading the bytecode and the C++ passes stand apart. The least of
the repeats is shown: the machine may be busy.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gpt_step
import jax
import jax.numpy as jnp

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import bytecode_of, ir
from dtensor.dialect.names import ARG_ATTRS, RES_ATTRS
from dtensor.dialect.verify import verify_all
from dtensor.passes.base import PassState
from dtensor.passes.functions import main_function, set_boundary_layouts
from dtensor.passes.pipeline import Instruments, Pipeline
from dtensor.passes.pipelines import pipeline_text
from dtensor.passes.planning.limits import EFFORTS


def lowered(layers: int) -> tuple[bytes, list[tuple[str, int]], int, float]:
    """The step as bytecode, its arguments' `(name, rank)`, its number of ops, CPU seconds taken."""
    params = gpt_step.parameters(layers)
    batch = jax.ShapeDtypeStruct((512, gpt_step.LENGTH), jnp.int32)
    count = jax.ShapeDtypeStruct((), jnp.int32)
    args = (params, params, params, count, batch, batch)
    start = time.process_time()
    module: Any = jax.jit(gpt_step.step, keep_unused=True).lower(*args).compiler_ir("stablehlo")
    seconds = time.process_time() - start
    names = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(args):
        keys = [str(getattr(k, "key", "")) for k in path if getattr(k, "key", None) is not None]
        names.append((keys[-1] if keys else "", leaf.ndim))
    count_ops = [0]

    def walk(block: Any) -> None:
        for op in block.operations:
            count_ops[0] += 1
            for region in op.operation.regions:
                for inner in region.blocks:
                    walk(inner)

    walk(module.body)
    return bytecode_of(module), names, count_ops[0], seconds


def layouts(names: list[tuple[str, int]], mesh: Mesh) -> list[Layout]:
    """Megatron's layouts by the parameters' names; the batch is split over data."""
    found = []
    for name, rank in names:
        specs = gpt_step.SPECS.get(name, ["data"] + [None] * (rank - 1) if rank == 2 else [])
        found.append(Layout(specs if rank else [], mesh))
    return found


def measure(
    source: bytes, names: list[tuple[str, int]], mesh: Mesh, effort: str = "normal"
) -> dict[str, float]:
    """CPU seconds of each stage, once."""
    seconds: dict[str, float] = defaultdict(float)
    gc.collect()
    with make_context(), ir.Location.unknown():
        start = time.process_time()
        module = parse_module(source, "step")
        seconds["read"] = time.process_time() - start
        main = main_function(module)
        arguments = layouts(names, mesh)
        set_boundary_layouts(main, ARG_ATTRS, arguments)
        count = sum(1 for name, _ in names if name in gpt_step.SPECS)
        results = [*arguments[: count + 1], Layout([], mesh)]
        set_boundary_layouts(main, RES_ATTRS, results)
        state = PassState(mesh=mesh, meshes={mesh.symbol: mesh}, effort=effort)
        last = [time.process_time()]

        def after(name: str, _: ir.Module) -> None:
            now = time.process_time()
            own = name.startswith("dtensor-")
            seconds[name.removeprefix("dtensor-") if own else "C++"] += now - last[0]
            last[0] = time.process_time()

        pipeline = Pipeline.parse(pipeline_text("dtensor-spmd"))
        start = time.process_time()
        verify_all(module, {mesh.symbol: mesh})
        seconds["verify"] = time.process_time() - start
        last[0] = time.process_time()
        pipeline.run(module, state, Instruments(after=after))
        start = time.process_time()
        verify_all(module, {mesh.symbol: mesh})
        seconds["verify"] += time.process_time() - start
    return seconds


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, nargs="+", default=[4, 12, 24])
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--repeat", type=int, default=3, help="runs per row; the least counts")
    parser.add_argument("--effort", choices=EFFORTS, default="normal", help="of the planner")
    options = parser.parse_args()
    rows = [(layers, options.devices[0]) for layers in options.layers]
    rows += [
        (options.layers[-2 if len(options.layers) > 1 else -1], n) for n in options.devices[1:]
    ]
    programs = {layers: lowered(layers) for layers in sorted({r[0] for r in rows})}
    header: list[str] = []
    for layers, devices in rows:
        source, names, ops, traced = programs[layers]
        data = 2 if devices == 8 else 8
        mesh = (
            Mesh([("data", data), ("model", devices // data)])
            if devices <= 64
            else Mesh([("pod", devices // 64), ("data", 8), ("model", 8)])
        )
        runs = [measure(source, names, mesh, options.effort) for _ in range(options.repeat)]
        best = {stage: min(run[stage] for run in runs) for stage in runs[0]}
        own = sum(s for stage, s in best.items() if stage not in ("read", "C++"))
        if not header:
            header = list(best)
            print("layers devices   ops  jax", *header, "own", sep="  ")
        cells = [f"{best[stage] / ops * 1e6:{len(stage)}.1f}" for stage in header]
        print(
            f"{layers:6d}  {devices:6d}  {ops:5d}  {traced / ops * 1e6:3.0f}",
            *cells,
            f"{own / ops * 1e6:.1f}",
            sep="  ",
            flush=True,
        )


if __name__ == "__main__":
    main()
