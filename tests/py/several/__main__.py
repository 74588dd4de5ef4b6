"""Programs on all devices of several clients, each against one CPU device.

    dtensor-launch -n 8 --clients-per-gpu 8 -m tests.py.several [--seconds S] [forms|random ...]

`forms` are those of `benchmarks.long_tail`, `models` those of `benchmarks.against_jax`, `random`
the programs of `make fuzz` that fill the devices. A machine with one GPU is enough: the clients
share it, and exchange their parts through NCCL as on eight. Exit status 1 says that a result
differs, or that a program failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

import dtensor

_KINDS = ("forms", "models", "random")
_LOOSE = 1e-4  # relative to the largest element; sums are in another order


@dataclass(frozen=True)
class Case:
    """A program, and how it is laid out.

    Attributes:
        name: what the output calls it.
        mesh: sizes of the mesh axes.
        function: the program of one device.
        arguments: trees of NumPy arrays.
        options: of its compilation; what else `dtensor.jit` takes is a function of the mesh.
    """

    name: str
    mesh: dict[str, int]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Callable[[dtensor.Mesh], dict[str, Any]]


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="several", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kinds", nargs="*", default=_KINDS, help=", ".join(_KINDS))
    parser.add_argument("--seconds", type=float, default=600.0, help="when to stop")
    parser.add_argument("--first", type=int, default=0, help="the first seed of random programs")
    parser.add_argument("--names", nargs="+", default=(), help="only these forms and models")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="programs to run")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    dtensor.initialize_accelerator_system()
    jax.config.update("jax_default_matmul_precision", "highest")  # else float32 is TF32 on GPUs
    wrong, done = [], 0
    for case in _cases(options.kinds, options.names, options.first):
        if done == options.most or _anywhere(time.monotonic() > end):
            break
        start = time.monotonic()
        try:
            with jax.default_device(jax.local_devices(backend="cpu")[0]):
                expected = jax.tree.map(np.asarray, jax.jit(case.function)(*case.arguments))
        except Exception:  # jax itself cannot
            expected = None
        if _anywhere(expected is None):
            continue
        difference = _difference(case, expected)
        done += 1
        if difference:
            wrong.append(case.name)
        if difference or jax.process_index() == 0:
            seconds = time.monotonic() - start
            print(f"{case.name}: {difference or 'right'}, {seconds:.1f} s", flush=True)
    if jax.process_index() == 0:
        print(f"{done} programs on {jax.device_count()} x {jax.devices()[0].device_kind}: ", end="")
        print(f"wrong here: {', '.join(wrong)}" if wrong else "all right")
    return int(bool(wrong))


def _anywhere(here: bool) -> bool:
    """Whether it is so on any client; all ask at the same time."""
    if jax.process_count() == 1:
        return here
    return bool(np.max(multihost_utils.process_allgather(np.asarray(int(here)))))


def _cases(kinds: list[str], names: list[str], first: int) -> Iterator[Case]:
    for kind in kinds:
        if kind == "random":
            yield from _random(first)
            continue
        table = _forms() if kind == "forms" else _models()
        for name, workload in table.items():
            if not names or name in names:
                yield Case(
                    name, workload.mesh, workload.function, workload.arguments(), _of(workload)
                )


def _forms() -> dict[str, Any]:
    from benchmarks.long_tail import ROWS_OF_TABLE  # it chooses devices, which are chosen here

    return {name: row.workload for name, row in ROWS_OF_TABLE.items()}


def _models() -> dict[str, Any]:
    from benchmarks.against_jax.table import WORKLOADS

    return dict(WORKLOADS)


def _of(workload: Any) -> Callable[[dtensor.Mesh], dict[str, Any]]:
    # Planned by bytes, as for CPU devices: arrays this small would be gathered on a fast network.
    return lambda mesh: {
        "in_layouts": workload.in_specs,
        "out_layouts": workload.out_specs,
        "options": dtensor.CompileOptions(cost=dtensor.CostModel()),
    }


def _random(first: int) -> Iterator[Case]:
    from tests.py.fuzz.programs import COSTS, program

    for seed in count(first):
        made = replace(program(seed), cost=list(COSTS)[seed % len(COSTS)])
        sizes = dict(made.mesh)
        if np.prod(list(sizes.values())) == jax.device_count():
            values = tuple(made.values)
            yield Case(f"seed {seed}", sizes, made.function, values, partial(_laid_out, made))


def _laid_out(program: Any, mesh: dtensor.Mesh) -> dict[str, Any]:
    return {"in_layouts": program.layouts(mesh), "options": program.options}


def _difference(case: Case, expected: Any) -> str:
    """In what a client's shards differ from their part of `expected`; "" if they do not."""
    try:
        mesh = dtensor.create_mesh(list(case.mesh.items()))
        how = case.options(mesh)
        step = dtensor.jit(case.function, mesh=mesh, returns="jax", **how)
        results = jax.tree.leaves(jax.block_until_ready(step(*case.arguments)))
        for number, (found, whole) in enumerate(
            zip(results, jax.tree.leaves(expected), strict=True)
        ):
            for shard in found.addressable_shards:
                if text := _unlike(np.asarray(shard.data), whole[shard.index], whole):
                    return f"result {number}, {whole.dtype} {whole.shape}: {text}"
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"
    return ""


def _unlike(found: np.ndarray, part: np.ndarray, whole: np.ndarray) -> str:
    if (found.shape, found.dtype) != (part.shape, part.dtype):
        return f"a shard is {found.dtype} {found.shape}, not {part.dtype} {part.shape}"
    wide = complex if found.dtype.kind == "c" else float
    a, b, all_ = (array.astype(wide) for array in (found, part, whole))
    scale = np.abs(all_[np.isfinite(all_)]).max(initial=1e-3)
    exact = found.dtype.kind in "biu"
    loose = 0.0 if exact else _LOOSE if found.dtype.itemsize >= 4 else 0.05
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= loose * scale)
    if same.all():
        return ""
    return f"{found[~same][:3]} where one device has {part[~same][:3]}"


if __name__ == "__main__":
    sys.exit(main())
