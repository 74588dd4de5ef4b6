"""Automatic layouts beside those written by hand: planned microseconds, gap, memory, CPU seconds.

    python benchmarks/automatic.py --suite SUITE [--size full] [NAMES...]

SUITE is a folder whose `workloads.py` has `WORKLOADS`. `hand` is what the program is planned to
take with the suite's layouts, `auto` with those of `dtensor.auto_layouts`, which is told nothing
but the mesh; `capped` the same where one device may hold a sixth of all arguments. A gap says by
what share other layouts could be cheaper at most. `llama` and `llama8` are training steps of the
shapes of Llama 3 8B (32 layers, 8192 tokens) on 2x4 and on 8x8 devices; nobody laid them out by
hand. Nothing is compiled by XLA, and no array is made.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax
import jax.numpy as jnp

import dtensor
from benchmarks.suite import command_line, lowered_program, parsed

DEVICES = 64
SHARE = 6  # a device may hold one of so many parts of the arguments, where it is capped
LAYERS, WIDTH, HEADS, GROUPS, HEAD, INNER, VOCABULARY = 32, 4096, 32, 8, 128, 14336, 128256
BATCH, LENGTH = 16, 512
LLAMAS = {"llama": {"data": 2, "model": 4}, "llama8": {"data": 8, "model": 8}}
_COLUMNS = ("program", "mesh", "hand us", "auto us", "gap", "CPU s", "capped us", "gap", "of all")

Tree = dict[str, Any]


def _norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale


def _attention(p: Tree, x: jax.Array) -> jax.Array:
    q = jnp.einsum("bld,dhk->blhk", x, p["q"])
    k, v = (jnp.einsum("bld,dgk->blgk", x, p[name]) for name in ("k", "v"))
    q = q.reshape(*x.shape[:2], GROUPS, HEADS // GROUPS, HEAD)
    scores = jnp.einsum("blgrk,bmgk->bgrlm", q, k) / math.sqrt(HEAD)
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bgrlm,bmgk->blgrk", jax.nn.softmax(scores, -1), v)
    return jnp.einsum("blhk,hkd->bld", mixed.reshape(*x.shape[:2], HEADS, HEAD), p["o"])


def _loss(params: Tree, tokens: jax.Array) -> jax.Array:
    x = params["embed"][tokens]
    for layer in params["layers"]:
        x = x + _attention(layer, _norm(x, layer["norm1"]))
        y = _norm(x, layer["norm2"])
        x = x + (jax.nn.silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]
    logits = _norm(x, params["norm"]) @ params["head"]
    found = jnp.take_along_axis(jax.nn.log_softmax(logits, -1), tokens[..., None], -1)
    return -jnp.mean(found)


def _step(params: Tree, tokens: jax.Array) -> tuple[Tree, jax.Array]:
    loss, grads = jax.value_and_grad(_loss)(params, tokens)
    return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads), loss


def _llama() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step, and its arguments as shapes."""

    def array(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    layer = {
        "norm1": array(WIDTH),
        "q": array(WIDTH, HEADS, HEAD),
        "k": array(WIDTH, GROUPS, HEAD),
        "v": array(WIDTH, GROUPS, HEAD),
        "o": array(HEADS, HEAD, WIDTH),
        "norm2": array(WIDTH),
        "gate": array(WIDTH, INNER),
        "up": array(WIDTH, INNER),
        "down": array(INNER, WIDTH),
    }
    ends = {"embed": array(VOCABULARY, WIDTH), "head": array(WIDTH, VOCABULARY)}
    params = {**ends, "norm": array(WIDTH), "layers": [dict(layer) for _ in range(LAYERS)]}
    return _step, (params, jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32))


def measured(
    fn: Callable[..., Any], args: tuple[Any, ...], axes: Mapping[str, int], machine: str | None
) -> dict[str, Any]:
    """What automatic layouts cost, without and with a cap."""
    mesh = dtensor.create_mesh(
        list(axes.items()), devices=jax.devices()[: math.prod(axes.values())]
    )
    options = dtensor.CompileOptions(machine=machine)
    every = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(args))
    start = time.process_time()
    found = dtensor.auto_layouts(fn, *args, mesh=mesh, options=options)
    row = {"auto_us": found.cost * 1e6, "gap": found.gap, "cpu_s": time.process_time() - start}
    capped = dtensor.auto_layouts(
        fn, *args, mesh=mesh, options=options, max_bytes_per_device=every / SHARE
    )
    share = capped.bytes_per_device / every
    return row | {"capped_us": capped.cost * 1e6, "capped_gap": capped.gap, "share": share}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = command_line(__doc__)
    parser.add_argument("--machine", help="machine to plan for; bytes alone if none is given")
    options, workloads = parsed(parser, arguments, extra=tuple(LLAMAS))
    rows: list[dict[str, Any]] = []
    for size in options.sizes:
        for name in options.names or [*workloads, *LLAMAS]:
            axes = LLAMAS[name] if name in LLAMAS else workloads[name].mesh(size)
            row: dict[str, Any] = {"program": name, "size": size, "mesh": axes}
            try:
                if name in LLAMAS:
                    row |= measured(*_llama(), axes, options.machine)
                else:
                    row |= _beside_hand(workloads[name].program(size, axes), axes, options.machine)
            except (dtensor.DTensorError, ImportError) as wrong:
                row["error"] = str(wrong)
            rows.append(row)
            print(json.dumps(row) if options.json else _line(row, not rows[1:]), flush=True)
    return int(any("error" in row for row in rows))


def _beside_hand(program: Any, axes: Mapping[str, int], machine: str | None) -> dict[str, Any]:
    lowered = lowered_program(program, axes, dtensor.CompileOptions(machine=machine))
    (plan,) = [record for record in lowered.ledger["records"] if record["kind"] == "plan"]
    row = {"hand_us": plan["seconds"] * 1e6}
    hook = sys.modules["workloads"].set_constrain_hook
    hook(lambda x, _: x)  # the suite's hints are part of the layouts by hand
    try:
        return row | measured(program.fn, program.abstract_args(), axes, machine)
    finally:
        hook(None)


def _line(row: Mapping[str, Any], first: bool) -> str:
    cells = [row["program"], "x".join(map(str, row["mesh"].values()))]
    if "error" in row:
        cells.append(row["error"][:80])
    else:
        cells.append(f"{row['hand_us']:.6g}" if "hand_us" in row else "")
        gaps = ["-" if row[gap] is None else f"{row[gap]:.2%}" for gap in ("gap", "capped_gap")]
        cells += [f"{row['auto_us']:.6g}", gaps[0], f"{row['cpu_s']:.1f}"]
        cells += [f"{row['capped_us']:.6g}", gaps[1], f"{row['share']:.3f}"]
    widths = (28, 6, 10, 10, 7, 6, 10, 7, 7)
    lines = [_COLUMNS, cells] if first else [cells]
    return "\n".join(
        "  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=False)) for line in lines
    )


if __name__ == "__main__":
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=DEVICES)
    sys.exit(main())
