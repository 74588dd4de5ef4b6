"""`sdy.manual_computation`, which jax.shard_map becomes, as `dtensor.manual`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtensor.dialect import build
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.functions import tensor_shape
from dtensor.passes.program import BARRIER, terminator, walk

MANUAL_COMPUTATION = "sdy.manual_computation"

# The layouts of an operation's operands or results, by the name of Shardy's attribute.
Read = Callable[[ir.Operation, str, Sequence[int]], list[Layout]]


def import_manual_regions(function: ir.Operation, mesh: Mesh, read: Read) -> None:
    """Rewrite every manual region of a function.

    Args:
        function: the function.
        mesh: the module's mesh.
        read: reads Shardy's layouts.

    Raises:
        LocatedError: a region is manual over some axes of the mesh alone, or holds another one.
    """
    for op in [op for op, name, _ in walk(function) if name == MANUAL_COMPUTATION]:
        _check_axes(op, mesh)
        _clear(op, mesh)
        _rewrite(op, read)


def _check_axes(op: ir.Operation, mesh: Mesh) -> None:
    manual = re.findall(r'"([^"]+)"', str(op.attributes["manual_axes"]))
    free = [name for name, size in mesh.axes if size > 1 and name not in manual]
    if free:
        error(
            op,
            f"a region of jax.shard_map is manual over {', '.join(manual) or 'no axis'} and leaves "
            f"{', '.join(free)} to the compiler; name all axes of the mesh in axis_names",
        )


def _clear(op: ir.Operation, mesh: Mesh) -> None:
    """Drop what the body says of global layouts: it works on shards."""
    for inner, name, _ in list(walk(op, combiners=True)):
        if name == MANUAL_COMPUTATION:
            error(inner, "a shard_map stands inside another one; make it one region")
        if name in ("sdy.sharding_constraint", "sdy.propagation_barrier"):
            inner.results[0].replace_all_uses_with(inner.operands[0])
            inner.erase()
        elif "sdy.sharding" in inner.attributes:
            del inner.attributes["sdy.sharding"]
        if "replica_groups" in inner.attributes:
            _list_groups(inner, mesh)


def _list_groups(op: ir.Operation, mesh: Mesh) -> None:
    """Write replica groups that jax 0.12 names by mesh axes as lists of devices."""
    written = str(op.attributes["replica_groups"])
    if not written.startswith("#stablehlo.replica_group_mesh_axes"):
        return
    axes = re.findall(r'name = "([^"]+)"', written)
    sizes = dict(mesh.axes)
    if "sub_axis" in written or any(axis not in sizes for axis in axes):
        error(op, f"a collective in shard_map runs over {written}; name whole axes of the mesh")
    devices = np.arange(mesh.size).reshape(list(sizes.values()))
    order = [list(sizes).index(axis) for axis in axes]
    groups = np.moveaxis(devices, order, range(-len(order), 0))
    groups = groups.reshape(-1, math.prod(sizes[axis] for axis in axes))
    rows = ", ".join(map(str, groups.tolist()))
    shape = "x".join(map(str, groups.shape))
    op.attributes["replica_groups"] = ir.Attribute.parse(f"dense<[{rows}]> : tensor<{shape}xi64>")


def _rewrite(op: ir.Operation, read: Read) -> None:
    old = op.regions[0].blocks[0]
    ends = list(terminator(old).operands)
    sides = []
    for name, values, inside in (
        ("in_shardings", op.operands, old.arguments),
        ("out_shardings", op.results, ends),
    ):
        shapes = [tensor_shape(value.type) or () for value in values]
        layouts = read(op, name, [len(shape) for shape in shapes])
        for k, (layout, shape, value) in enumerate(zip(layouts, shapes, inside, strict=True)):
            problem = layout.problem(shape)
            if problem is None and layout.local_shape(shape) != tuple(
                tensor_shape(value.type) or ()
            ):
                problem = f"shards are {layout.local_shape(shape)}, the region has {value.type}"
            if problem is not None:
                error(op, f"{name}, {k}: {problem}")
        sides.append(layouts)
    types = [result.type for result in op.results]
    new = build.manual(
        list(op.operands), sides[0], types, sides[1], op.location, ir.InsertionPoint(op)
    )
    block = new.regions[0].blocks[0]
    for before, after in zip(old.arguments, block.arguments, strict=True):
        after.set_type(before.type)
        before.replace_all_uses_with(after)
    end = ir.Operation.create(
        "stablehlo.return",
        operands=_each_its_own(terminator(old)),
        loc=op.location,
        ip=ir.InsertionPoint(block),
    )
    for view in list(old.operations)[:-1]:
        view.operation.move_before(end)
    for result, made in zip(op.results, new.results, strict=True):
        result.replace_all_uses_with(made)
    op.erase()


def _each_its_own(end: ir.Operation) -> list[ir.Value[Any]]:
    """What a region gives, no value twice and no argument: each result has a layout of its own."""
    found: dict[ir.Value[Any], None] = {}
    for value in end.operands:
        if value in found or isinstance(value.owner, ir.Block):
            value = ir.Operation.create(
                BARRIER,
                results=[value.type],
                operands=[value],
                loc=end.location,
                ip=ir.InsertionPoint(end),
            ).results[0]
        found[value] = None
    return list(found)
