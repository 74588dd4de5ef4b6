"""`sdy.manual_computation`, which jax.shard_map becomes, as `dtensor.manual`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from dtensor.dialect import build
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, forget, ir, ops_of, replace_op, terminator
from dtensor.passes.builder import Builder, filling
from dtensor.passes.functions import tensor_shape
from dtensor.passes.importing.groups import check_groups, list_groups
from dtensor.passes.ops.opdef import BY_DEVICE
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BARRIER, CONTROL, dissolve, walk

MANUAL_COMPUTATION = "sdy.manual_computation"

# The layouts of an operation's operands or results, by the name of Shardy's attribute.
Read = Callable[[ir.Operation, str, Sequence[int]], list[Layout]]
Axes = tuple[str, ...]

_CONSTRAINT = "sdy.sharding_constraint"
_BARRIER = "sdy.propagation_barrier"


def import_manual_regions(
    owner: ir.Operation, mesh: Mesh, read: Read, around: Axes | None = None
) -> None:
    """Rewrite every manual region of a function, and those that stand in them.

    Args:
        owner: the function, or a region that was rewritten.
        mesh: the module's mesh.
        read: reads Shardy's layouts.
        around: the axes of the mesh that are not manual in `owner`; None is all.

    Raises:
        LocatedError: a region does not fit what it works on, or what stands around it.
    """
    is_shut = around == ()  # nothing is left to be manual over
    if around is None:
        around = tuple([name for name, size in mesh.axes if size > 1])
    for op in [op for op, name, _ in walk(owner) if name == MANUAL_COMPUTATION]:
        manual = re.findall(r'"([^"]+)"', str(op.attributes["manual_axes"]))
        free = tuple([name for name in around if name not in manual])
        for inner, name, _ in list(walk(op)):
            _clear(inner, name, mesh, free)
        region = _rewrite(op, read, free)
        import_manual_regions(region, mesh, read, free)
        if is_shut:
            dissolve(region, region.operands, region)


def _clear(op: ir.Operation, name: str, mesh: Mesh, free: Axes) -> None:
    """Drop what an operation of a region says of layouts, unless it may speak of free axes."""
    if name not in CONTROL and name != MANUAL_COMPUTATION:
        for inner, inner_name, _ in list(walk(op, combiners=True)):
            _drop(inner, inner_name)  # of single elements
    if free and opdef(name).varies == BY_DEVICE:
        error(
            op,
            f"{name} tells devices apart over {', '.join(free)}, which this region of "
            "jax.shard_map leaves to the compiler; use jax.lax.axis_index",
        )
    if "replica_groups" in op.attributes:
        list_groups(op, mesh)
    check_groups(op, name, mesh, free)
    if not free or (name == _CONSTRAINT and _asks_nothing(op)):
        _drop(op, name)


def _drop(op: ir.Operation, name: str) -> None:
    if name in (_CONSTRAINT, _BARRIER):
        replace_op(op, op.operands)
    else:
        forget(op, "sdy.sharding")


def _asks_nothing(op: ir.Operation) -> bool:
    """Whether a constraint leaves all dimensions open, as jax writes behind each operation."""
    text = str(op.attributes["sharding"])
    dims = text[text.index("[") + 1 : text.rindex("]")]
    return all(dim.strip() == "{?}" for dim in dims.split(",") if dim.strip())


def _rewrite(op: ir.Operation, read: Read, free: Axes) -> ir.Operation:
    """Put a `dtensor.manual` in the place of an operation."""
    old = op.regions[0].blocks[0]
    sides = [
        list(_layouts(op, name, values, read))
        for name, values in (("in_shardings", op.operands), ("out_shardings", op.results))
    ]
    types = [result.type for result in op.results]
    new = build.manual(
        list(op.operands), sides[0], types, sides[1], free, op.location, ir.InsertionPoint(op)
    )
    block = new.regions[0].blocks[0]
    for before, after in zip(old.arguments, block.arguments, strict=True):
        after.set_type(before.type)
        before.replace_all_uses_with(after)
    end = filling(block).create("stablehlo.return", _each_its_own(terminator(old)), [])
    for each in ops_of(old)[:-1]:
        each.move_before(end)
    replace_op(op, new.results)
    return new


def _layouts(
    op: ir.Operation, name: str, values: Sequence[Value], read: Read
) -> Iterator[Layout | None]:
    """What a region says of its operands or results; None for tokens.

    Shardy's verifier has seen to it that the layouts cut the shards that the region works on.
    """
    shapes = [tensor_shape(value.type) for value in values]
    layouts = read(op, name, [len(shape or ()) for shape in shapes])
    for k, (layout, shape) in enumerate(zip(layouts, shapes, strict=True)):
        if shape is None:
            yield None
            continue
        problem = layout.problem(shape)
        if problem is not None:
            error(op, f"{name}, {k}: {problem}")
        yield layout


def _each_its_own(end: ir.Operation) -> list[Value]:
    """What a region gives, no value twice and no argument: each result has a layout of its own."""
    found: dict[Value, None] = {}
    for value in end.operands:
        if value in found or isinstance(value.owner, ir.Block):
            value = Builder(end).value(BARRIER, [value], value.type)
        found[value] = None
    return list(found)
