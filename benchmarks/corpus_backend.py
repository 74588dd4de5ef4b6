"""dtensor as a backend of an operator corpus's runner; the public API only.

    python CORPUS/run_corpus.py --backend-file benchmarks/corpus_backend.py --sample 200

The runner gives one StableHLO program, a layout for each argument and inputs, and compares what
comes back with the reference. Every result is asked for replicated, so that a wrong collective
cannot hide in a shard that nobody reads. What dtensor refuses is raised as the error it is, with
the stage it happened in.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import corpus_lib
import jax
import numpy as np

import dtensor

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

Spec = Sequence[str | Sequence[str] | None]
_STRICT = os.environ.get("CORPUS_STRICT") == "1"  # a fallback is then an error
_MAIN = re.compile(r"@main\(.*?\)\s*->\s*(.*?)\{\s*$", re.MULTILINE)
_RANK = re.compile(r"tensor<((?:\d+x)*)")


def compile_and_run(
    module_text: str,
    mesh_axes: Sequence[tuple[str, int]],
    arg_specs: Sequence[Spec],
    inputs: Sequence[np.ndarray[Any, Any]],
) -> tuple[list[np.ndarray[Any, Any]], dict[str, dict[str, int]]]:
    """Run one program of the corpus on virtual devices.

    Args:
        module_text: StableHLO with one public `@main`, without layouts.
        mesh_axes: name and size of each mesh axis.
        arg_specs: per argument and dimension: None, an axis, or several, the first one major.
        inputs: global arrays.

    Returns:
        Global results, and per kind of collective in the optimised HLO its count and operand bytes.
    """
    stage = "compile"
    try:
        devices = jax.devices()[: int(np.prod([size for _, size in mesh_axes]))]
        mesh = dtensor.create_mesh(list(mesh_axes), devices=devices)
        compiled = dtensor.compile_mlir(
            module_text,
            mesh=mesh,
            in_layouts=[_layout(spec, mesh) for spec in arg_specs],
            out_layouts=[_layout([None] * rank, mesh) for rank in _result_ranks(module_text)],
            options=dtensor.CompileOptions(strict=_STRICT),
        )
        stats = corpus_lib.hlo_collectives(compiled.as_text())
        stage = "run"
        return [_the_one_value(result) for result in compiled(*inputs)], stats
    except Exception as wrong:
        wrong.stage = stage  # type: ignore[attr-defined]
        raise


def _layout(spec: Spec, mesh: dtensor.Mesh) -> dtensor.Layout:
    return dtensor.Layout([dtensor.UNSHARDED if e is None else e for e in spec], mesh)


def _result_ranks(module_text: str) -> list[int]:
    match = _MAIN.search(module_text)
    results = match.group(1) if match else ""
    return [dims.count("x") for dims in _RANK.findall(results)]


def _the_one_value(result: dtensor.DTensor) -> np.ndarray[Any, Any]:
    """The value of a replicated result; every device must have the same bits."""
    copies = [np.asarray(shard) for shard in dtensor.unpack(result)]
    if any(copy.tobytes() != copies[0].tobytes() for copy in copies[1:]):
        raise ValueError("replicated result differs between devices")
    return copies[0]
