"""Measures a workload under both compilers: bytes, flops, memory and seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dtensor
from benchmarks.against_jax.workload import Workload
from dtensor.compiler.targets.hlo import hlo_collectives

COMPILERS = ("dtensor", "jax")
DEVICES = 8


@dataclass(frozen=True)
class Measured:
    """One workload under one compiler.

    Attributes:
        wire_bytes: bytes that one device sends per call, on a ring, by the HLO that XLA optimised.
        collectives: executions per call of each kind.
        local_flops: floating-point operations of one device by XLA, a loop's body counted once.
        memory_bytes: arguments, results and temporaries of one device by XLA, shared ones once.
        seconds_to_executable: from the Python function to what can be called, imports aside.
        step_seconds: median of the calls.
        largest_difference: from one device, over the largest result.
    """

    wire_bytes: float
    collectives: dict[str, int]
    local_flops: float
    memory_bytes: int
    seconds_to_executable: float
    step_seconds: float
    largest_difference: float


@dataclass
class _Program:
    compiled: Any
    seconds: float
    put: Callable[[Any], Any]


def measure(
    workload: Workload, calls: int, compilations: int = 2, compilers: Sequence[str] = COMPILERS
) -> dict[str, dict[str, Any]]:
    """Compile and run a workload under each compiler; the fields of a `Measured` for each.

    Args:
        workload: what to run.
        calls: how often each is called again, in turns; the first call counts where it is alone.
        compilations: how often each compiles it. The shortest counts: the first also imports.
        compilers: which of them.
    """
    mesh = jax.make_mesh(
        tuple(workload.mesh.values()),
        tuple(workload.mesh),
        axis_types=(AxisType.Auto,) * len(workload.mesh),
    )
    arguments = workload.arguments()
    expected = jax.jit(workload.function)(*arguments)
    compiled_by = {"dtensor": _by_dtensor, "jax": _by_jax}
    programs = {name: compiled_by[name](workload, mesh, compilations) for name in compilers}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    differences: dict[str, float] = {}
    for turn in range(calls + 1):
        for name, program in programs.items():
            inputs = program.put(arguments)
            start = time.perf_counter()
            result = jax.block_until_ready(program.compiled(*inputs))
            seconds[name].append(time.perf_counter() - start)
            if turn == 0:
                differences[name] = _difference(result, expected)
    return {
        name: asdict(_measured(program, seconds[name][1:] or seconds[name], differences[name]))
        for name, program in programs.items()
    }


def shardings(specs: Any, mesh: jax.sharding.Mesh) -> Any:
    """NamedShardings in the place of PartitionSpecs."""
    return jax.tree.map(
        lambda spec: None if spec is None else NamedSharding(mesh, spec),
        specs,
        is_leaf=lambda leaf: leaf is None or isinstance(leaf, PartitionSpec),
    )


def _by_dtensor(workload: Workload, mesh: jax.sharding.Mesh, times: int) -> _Program:
    ins, outs = shardings(workload.in_specs, mesh), shardings(workload.out_specs, mesh)

    def compiled() -> Any:
        step = dtensor.jit(
            workload.function,
            mesh=mesh,
            in_layouts=ins,
            out_layouts=outs,
            donate_argnums=workload.donate,
            returns="jax",
        )
        return step.lower(*workload.shapes).compile()

    return _Program(*_timed(compiled, times), lambda arguments: _put(arguments, ins))


def _by_jax(workload: Workload, mesh: jax.sharding.Mesh, times: int) -> _Program:
    ins, outs = shardings(workload.in_specs, mesh), shardings(workload.out_specs, mesh)

    def compiled() -> Any:
        step = jax.jit(
            workload.function, in_shardings=ins, out_shardings=outs, donate_argnums=workload.donate
        )
        return step.lower(*workload.shapes).compile()

    return _Program(*_timed(compiled, times), lambda arguments: _put(arguments, ins))


def _timed(compiled: Callable[[], Any], times: int) -> tuple[Any, float]:
    """The program, and the seconds of the shortest of some compilations."""
    seconds = []
    for _ in range(times):
        jax.clear_caches()
        start = time.perf_counter()
        found = compiled()
        seconds.append(time.perf_counter() - start)
    return found, min(seconds)


def _put(arguments: Any, shardings: Any) -> Any:
    return jax.block_until_ready(jax.tree.map(jax.device_put, arguments, shardings))


def _wide(array: Any) -> Any:
    return complex if np.iscomplexobj(array) else float


def _difference(result: Any, expected: Any) -> float:
    """The largest difference of any element, over the largest element of its array."""
    pairs = zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True)
    return max(
        float(np.abs(np.asarray(a, _wide(b)) - np.asarray(b, _wide(b))).max())
        / max(float(np.abs(b).max()), 1e-30)
        for a, b in pairs
    )


def _measured(program: _Program, seconds: list[float], difference: float) -> Measured:
    found = hlo_collectives(program.compiled.as_text(), DEVICES)
    kinds: dict[str, int] = {}
    for collective in found:
        kinds[collective.kind] = kinds.get(collective.kind, 0) + (collective.trip_count or 1)
    memory = program.compiled.memory_analysis()
    return Measured(
        wire_bytes=sum(c.bytes * (c.trip_count or 1) for c in found),
        collectives=dict(sorted(kinds.items())),
        local_flops=float((program.compiled.cost_analysis() or {}).get("flops", 0.0)),
        memory_bytes=memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes,
        seconds_to_executable=program.seconds,
        step_seconds=statistics.median(seconds),
        largest_difference=difference,
    )
