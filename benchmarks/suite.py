"""The programs of a benchmark suite, as `dtensor.jit` takes them.

A suite is a folder whose `workloads.py` has `WORKLOADS`; `THIRDPARTY` of `workloads_thirdparty.py`
is read too where packages are installed.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.sharding import PartitionSpec

import dtensor


def read_suite(folder: Path) -> dict[str, Any]:
    """The workloads of a folder, by name."""
    sys.path.insert(0, str(folder))
    found: dict[str, Any] = dict(importlib.import_module("workloads").WORKLOADS)
    try:
        found |= importlib.import_module("workloads_thirdparty").THIRDPARTY
    except ImportError as missing:
        print(f"without workloads_thirdparty: {missing}", file=sys.stderr)
    return found


def command_line(documentation: str | None, needs_suite: bool = True) -> argparse.ArgumentParser:
    """What every report on a suite can be asked: which programs, of which size, as a table or JSON.

    Args:
        documentation: of the report: its first sentence, how to call it, and the rest.
        needs_suite: whether there is nothing to report on without one.
    """
    assert documentation is not None
    parser = argparse.ArgumentParser(
        description=documentation.split("\n")[0],
        epilog=documentation.split("\n\n", 2)[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="programs; all if none is named")
    parser.add_argument("--suite", type=Path, required=needs_suite, help="folder with workloads.py")
    parser.add_argument("--size", default="test", choices=["test", "full", "both"])
    parser.add_argument("--json", action="store_true", help="one JSON object per line instead")
    return parser


def parsed(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, extra: Sequence[str] = ()
) -> tuple[argparse.Namespace, dict[str, Any]]:
    """The options, `sizes` among them, and the suite's workloads by name.

    Args:
        parser: as `command_line` makes it.
        arguments: of the command line; None for those of the process.
        extra: names of further programs that the report has itself.
    """
    options = parser.parse_args(arguments)
    workloads = read_suite(options.suite)
    names = [*workloads, *extra]
    unknown = [name for name in options.names if name not in names]
    if unknown:
        parser.error(f"no program {unknown[0]}; there are {', '.join(names)}")
    options.sizes = ("test", "full") if options.size == "both" else (options.size,)
    return options, workloads


def in_parts(mesh: Mapping[str, int], count: int) -> dict[str, list[tuple[str, int]]]:
    """The axes that stand for each axis of a mesh, so that there are at least `count` of them.

    The largest is halved until there are, as far as its size is even.
    """
    parts = {name: [(name, size)] for name, size in mesh.items()}
    while sum(map(len, parts.values())) < count:
        name = max(parts, key=lambda name: parts[name][-1][1])
        last, size = parts[name].pop()
        if size % 2 or size < 4:
            parts[name].append((last, size))
            break
        parts[name] += [(last, 2), (f"{name}_{len(parts[name]) + 2}", size // 2)]
    return parts


def lowered_program(
    program: Any,
    axes: Mapping[str, int],
    options: Any = None,
    target: str | None = None,
    count: int = 0,
) -> Any:
    """The program with the suite's layouts and hints, on a mesh of axis sizes by name.

    The mesh is of this machine's devices, or of those of a target. With fewer than `count` axes,
    the largest stand as several: a layout that names one names all of its parts.
    """
    parts = in_parts(axes, count)
    axes = dict(itertools.chain.from_iterable(parts.values()))
    workloads = sys.modules["workloads"]
    if target is None:
        devices = jax.devices()[: math.prod(axes.values())]
        mesh = dtensor.create_mesh(list(axes.items()), devices=devices)
    else:
        mesh = dtensor.Mesh(list(axes.items()))

    def named(entry: Any) -> Any:
        names = (entry,) if isinstance(entry, str) else entry or ()
        every = tuple([part for name in names for part, _ in parts[name]])
        return (every if len(every) > 1 else every[0]) if every else None

    def layout(spec: Any, rank: int) -> Any:
        entries = None if spec is None else [*map(named, spec), *[None] * (rank - len(spec))]
        return None if entries is None else dtensor.Layout(entries, mesh)

    def of_tree(spec: Any, tree: Any) -> Any:
        return jax.tree.map(lambda x: layout(spec, len(x.shape)), tree)

    workloads.set_constrain_hook(lambda x, spec: dtensor.relayout(x, layout(spec, x.ndim)))
    try:
        args = program.abstract_args()
        ins = jax.tree.map(
            lambda arg, spec: None if arg is None else layout(spec, len(arg.shape)),
            args,
            program.in_specs(),
            is_leaf=lambda x: x is None,
        )
        outs = None
        if program.out_specs is not None:
            results = jax.eval_shape(program.fn, *args)
            outs = jax.tree.map(of_tree, program.out_specs, results, is_leaf=_is_spec)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dtensor.jit(
                program.fn,
                mesh=mesh,
                in_layouts=ins,
                out_layouts=outs,
                donate_argnums=program.donate,
                options=options,
            ).lower(*args, target=target)
    finally:
        workloads.set_constrain_hook(None)


def _is_spec(leaf: object) -> bool:
    return leaf is None or isinstance(leaf, PartitionSpec)
