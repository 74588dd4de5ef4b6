"""dtensor as a backend of a sharding benchmark suite's runner; the public API only.

    python RUNNER/peer.py --backend-file benchmarks/peer_backend.py gpt_dp_tp zero1_opt_sharded

The runner's `backend_api.Backend` says what `compile` is given and what it reports. Bytes are
counted by the runner's own reader in the HLO that XLA optimised.
"""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import hlo_metrics
import jax
import numpy as np
import workloads
from backend_api import Backend as BackendInterface
from backend_api import Compiled
from jax.sharding import PartitionSpec

import dtensor


def _is_spec(leaf: object) -> bool:
    return leaf is None or isinstance(leaf, PartitionSpec)


def _layout(spec: PartitionSpec | None, rank: int, mesh: dtensor.Mesh) -> dtensor.Layout | None:
    if spec is None:
        return None
    entries = list(spec) + [None] * (rank - len(spec))
    return dtensor.Layout([dtensor.UNSHARDED if e is None else e for e in entries], mesh)


class Backend(BackendInterface):
    """Compiles each workload with `dtensor.jit`."""

    name = "dtensor"

    def compile(
        self,
        fn: Callable[..., Any],
        mesh: dict[str, int],
        abstract_args: Any,
        in_specs: Any,
        out_specs: Any,
        donate: tuple[int, ...] = (),
        trips: int = 1,
    ) -> Compiled:
        """Compile and report; see `backend_api.Backend`."""
        devices = math.prod(mesh.values())
        place = dtensor.create_mesh(list(mesh.items()), devices=jax.devices()[:devices])
        workloads.set_constrain_hook(
            lambda x, spec: dtensor.relayout(x, _layout(spec, x.ndim, place))
        )
        in_layouts = jax.tree.map(
            lambda arg, spec: None if arg is None else _layout(spec, len(arg.shape), place),
            abstract_args,
            in_specs,
            is_leaf=_is_none,
        )
        shapes = jax.eval_shape(fn, *abstract_args)
        out_layouts = None
        if out_specs is not None:
            out_layouts = jax.tree.map(
                lambda spec, tree: jax.tree.map(lambda x: _layout(spec, len(x.shape), place), tree),
                out_specs,
                shapes,
                is_leaf=_is_spec,
            )
        cpu0, start = time.process_time(), time.perf_counter()
        step = dtensor.jit(
            fn,
            mesh=place,
            in_layouts=in_layouts,
            out_layouts=out_layouts,
            donate_argnums=donate,
        )
        lowered = step.lower(*abstract_args)
        text = lowered.as_text()
        cpu1, middle = time.process_time(), time.perf_counter()
        compiled = lowered.compile()
        cpu2, end = time.process_time(), time.perf_counter()
        workloads.set_constrain_hook(None)
        hlo = compiled.as_text()
        if os.environ.get("HLO_DIR"):
            Path(os.environ["HLO_DIR"], f"{os.environ.get('WL', 'program')}.hlo").write_text(hlo)
        collectives, unknown = hlo_metrics.collectives(hlo, devices, trips)
        if os.environ.get("DTENSOR_EXPLAIN"):
            print(compiled.explain(), file=sys.stderr)
        cost = compiled.cost_analysis() or {}

        def put(arrays: Any) -> Any:
            return jax.tree.map(_put, tuple(arrays), in_layouts, is_leaf=_is_none)

        def run(arrays: Any) -> Any:
            results = compiled(*arrays)
            return jax.block_until_ready(jax.tree.map(_array, results, is_leaf=_is_dtensor))

        return Compiled(
            {
                "trace": 0.0,
                "lower": middle - start,
                "compile": end - middle,
                "tracelower_cpu": cpu1 - cpu0,
                "compile_cpu": cpu2 - cpu1,
            },
            collectives,
            unknown,
            _memory(compiled.memory_analysis()),
            cost.get("flops"),
            cost.get("transcendentals"),
            len(re.findall(r"= \"?(?:stablehlo|chlo)\.", text)),
            [f"planned wire bytes {compiled.wire_bytes:.0f}"],
            call=lambda *a: jax.tree.map(np.asarray, run(put(a))),
            put=put,
            step=run,
        )


def _is_none(leaf: object) -> bool:
    return leaf is None


def _put(array: Any, layout: dtensor.Layout | None) -> Any:
    # Arguments may be None, and so may layouts: the compiler then chooses.
    return array if array is None or layout is None else dtensor.copy_to_mesh(array, layout)


def _is_dtensor(leaf: object) -> bool:
    return isinstance(leaf, dtensor.DTensor)


def _array(leaf: Any) -> Any:
    return leaf.to_jax() if isinstance(leaf, dtensor.DTensor) else leaf


def _memory(analysis: Any) -> dict[str, float]:
    if analysis is None:
        return {}
    memory = {
        "args": analysis.argument_size_in_bytes,
        "out": analysis.output_size_in_bytes,
        "temp": analysis.temp_size_in_bytes,
        "alias": analysis.alias_size_in_bytes,
    }
    memory["peak"] = memory["args"] + memory["out"] + memory["temp"] - memory["alias"]
    return memory
