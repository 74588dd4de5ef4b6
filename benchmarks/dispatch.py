"""Latency of calling a compiled step, against plain `jax.jit` of the same program.

Both run in this process, in turns, so that the machine's load falls on both: the table has the
medians over interleaved pairs of rounds, in microseconds per call, and the median of the pairs'
differences. The empty steps measure dispatch alone: n float32 arrays of 16x16 elements per device
in, and the same out, with no communication. The training step is that of examples/train_gpt.py:
on 8 devices over its mesh data=2, model=4, where `jax.jit` partitions the same program from the
same shardings.

    python benchmarks/dispatch.py [--rounds 40] [--devices 1 8] [--check]

`--check` makes the exit status 1 where a limit is exceeded: on one device 4 us plus 0.3 us for each
array that an empty step takes (it returns as many) and 1.05 times on a training step; on several
devices 1.05 times on any.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import jax
import numpy as np
import train_gpt
from jax.sharding import NamedSharding, PartitionSpec

import dtensor

ARRAYS = (1, 4, 16, 64)
BASE_MICROSECONDS = 4.0
MICROSECONDS_PER_ARRAY = 0.3
LARGEST_RATIO = 1.05


@dataclass(frozen=True)
class Case:
    """A step to time.

    Attributes:
        name: what the table calls it.
        plain: one call through `jax.jit`, to be waited for.
        ours: one call of the same program through dtensor.
        arrays: arrays that a call takes.
        devices: devices that run it.
        calls: calls per round; the last is waited for.
        is_empty: whether only dispatch is measured.
    """

    name: str
    plain: Callable[[], Any]
    ours: Callable[[], Any]
    arrays: int
    devices: int
    calls: int
    is_empty: bool


@dataclass(frozen=True)
class Timing:
    """Medians in microseconds per call."""

    plain: float
    ours: float
    difference: float


def empty_step(count: int, mesh: dtensor.Mesh) -> Case:
    """`count` arrays in, `count` out; an addition each, so that nothing is passed through."""
    rows = dtensor.Layout(["x", dtensor.UNSHARDED], mesh)
    host = np.ones((16 * mesh.size, 16), np.float32)
    tensors = [dtensor.copy_to_mesh(host, rows) for _ in range(count)]
    arrays = [tensor.to_jax() for tensor in tensors]

    def step(xs: list[jax.Array]) -> list[jax.Array]:
        return [x + 1 for x in xs]

    plain = jax.jit(step, out_shardings=arrays[0].sharding)
    ours = dtensor.jit(step, out_layouts=rows)
    return Case(
        f"empty, {count} in {count} out",
        lambda: plain(arrays),
        lambda: ours(tensors),
        count,
        mesh.size,
        8,
        True,
    )


def demo_step(devices: int) -> Case:
    """The step of examples/train_gpt.py on its mesh, without donation so that it can repeat."""
    optimizer = train_gpt.make_optimizer(100)
    step = train_gpt.make_step(optimizer)
    mesh = dtensor.create_mesh(
        [("data", 2 if devices == 8 else 1), ("model", devices // 2 if devices == 8 else devices)]
    )
    init = train_gpt.make_init(optimizer)
    layouts = dtensor.layouts_by_name(jax.eval_shape(init, 0), train_gpt.LAYOUT_RULES, mesh)
    rows = dtensor.Layout(["data", dtensor.UNSHARDED], mesh)
    scalar = dtensor.Layout([], mesh)
    state = dtensor.jit(init, out_layouts=layouts)(0)
    text = next(train_gpt.batches(train_gpt.read_text(), 0))
    batch = dtensor.copy_to_mesh(text, rows)
    ours = dtensor.jit(step, in_layouts=(layouts, rows), out_layouts=(layouts, scalar))

    def is_dtensor(leaf: object) -> bool:
        return isinstance(leaf, dtensor.DTensor)

    jax_state = jax.tree.map(lambda x: x.to_jax(), state, is_leaf=is_dtensor)
    jax_batch = batch.to_jax()
    shardings = jax.tree.map(lambda x: x.sharding, jax_state)
    whole = NamedSharding(jax_batch.sharding.mesh, PartitionSpec())
    plain = jax.jit(step, out_shardings=(shardings, whole))
    # One call per round: before jax 0.12, steps with collectives in flight can deadlock on CPU.
    return Case(
        "the demo's step",
        lambda: plain(jax_state, jax_batch),
        lambda: ours(state, batch),
        len(jax.tree.leaves(jax_state)) + 1,
        devices,
        1,
        False,
    )


def measure(case: Case, rounds: int) -> Timing:
    """Time rounds of both in turns, each first in every second pair."""

    def round_(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        for _ in range(case.calls):
            result = call()
        if case.is_empty:  # dispatch only: what is still to be computed is waited for untimed
            seconds = time.perf_counter() - start
            jax.block_until_ready(result)
        else:
            jax.block_until_ready(result)
            seconds = time.perf_counter() - start
        return seconds / case.calls * 1e6

    for call in (case.plain, case.ours):
        for _ in range(3):
            round_(call)
    plain, ours = [], []
    for pair in range(rounds):
        if pair % 2:
            plain.append(round_(case.plain))
            ours.append(round_(case.ours))
        else:
            ours.append(round_(case.ours))
            plain.append(round_(case.plain))
    differences = [b - a for a, b in zip(plain, ours, strict=True)]
    return Timing(*map(statistics.median, (plain, ours, differences)))


def limit(case: Case, timing: Timing) -> float:
    """The latency that dtensor may have, in microseconds."""
    if case.is_empty and case.devices == 1:
        return timing.plain + BASE_MICROSECONDS + MICROSECONDS_PER_ARRAY * case.arrays
    return timing.plain * LARGEST_RATIO


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, help="pairs of rounds per step")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--check", action="store_true", help="fail where a limit is exceeded")
    options = parser.parse_args()
    dtensor.initialize_accelerator_system(num_logical_cpu_devices=max(options.devices))
    print(f"jax {jax.__version__}, {jax.devices()[0].platform}; microseconds per call, medians")
    print(f"{'devices':>7}  {'step':<22}{'jax.jit':>9}{'dtensor':>9}{'more':>8}{'limit':>9}")
    exceeded = False
    for count in options.devices:
        mesh = dtensor.create_mesh([("x", count)])
        for case in (*(empty_step(n, mesh) for n in ARRAYS), demo_step(count)):
            timing = measure(case, options.rounds * (5 if case.is_empty else 1))
            allowed = limit(case, timing)
            too_slow = timing.plain + timing.difference > allowed
            exceeded |= too_slow
            print(
                f"{count:>7}  {case.name:<22}{timing.plain:>9.1f}{timing.ours:>9.1f}"
                f"{timing.difference:>+8.1f}{allowed:>9.1f}{'  exceeded' if too_slow else ''}"
            )
    return int(exceeded and options.check)


if __name__ == "__main__":
    sys.exit(main())
