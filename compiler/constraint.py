"""`relayout` inside a traced function: a layout constraint that jax carries through everything.

The primitive lowers to `stablehlo.composite "dtensor.relayout"` with the identity as decomposition,
so a function with constraints still runs, unchanged in value, under plain `jax.jit`.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.interpreters import ad, batching
from jax.interpreters import mlir as jax_mlir
from jax.sharding import PartitionSpec, get_abstract_mesh

from dtensor.dialect.dim import Dim
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.runtime.keys import key_kind
from dtensor.runtime.shardings import as_layout, as_mesh
from dtensor.runtime.tracing import Primitive

COMPOSITE_NAME = "dtensor.relayout"

relayout_p = Primitive("dtensor_relayout")


def constrain(x: Any, layout: Layout) -> Any:
    """The traced array `x`, to be laid out as `layout` says at this point of the program.

    Raises:
        LayoutError: the layout has another rank, blocks that do not divide the shape, or is
            partial.
    """
    if layout.is_partial:
        raise LayoutError(
            f"layout {layout.short()} is partial; a constraint in a program must be complete: "
            "leave partial results to the compiler"
        )
    layout = layout.for_rank(x.ndim)
    layout.verify(x.shape, "relayout: a value", uneven=True)
    # Nothing is known yet that MATCH could be matched with.
    dims = [Dim((), is_open=True) if dim.is_match else dim for dim in layout.dims]
    return relayout_p.bind(x, layout=Layout.of(dims, layout.mesh))


def constrain_as(x: Any, layout: Any, mesh: Mesh | None, what: str = "") -> Any:
    """The traced array `x`, laid out as a value says that stands for a layout.

    Args:
        x: the array.
        layout: a Layout, a NamedSharding or a PartitionSpec.
        mesh: the mesh whose axes a PartitionSpec names; None is that which the function is traced
            for, as for jax's own with_sharding_constraint.
        what: what it is the layout of, for errors.

    Raises:
        LayoutError: as `constrain`.
    """
    if mesh is None and isinstance(layout, PartitionSpec):
        try:
            return jax.lax.with_sharding_constraint(x, layout)
        except Exception as error:  # ValueError or DuplicateSpecError, of shardings and resources
            wrong = error
        around, what = get_abstract_mesh(), what or "relayout"
        if around.empty:  # the function is traced once more, under a mesh
            raise ValueError(str(wrong))
        found = as_layout(layout, x.ndim, as_mesh(around), what)
        manual = sorted({axis.name for axis in found.axes} & set(around.manual_axes))
        if manual:
            raise LayoutError(
                f"{what}: {layout} names {', '.join(manual)} inside of a jax.shard_map over it, "
                "where values are shards; lay out its operands and results instead"
            )
        raise wrong
    return constrain(x, as_layout(layout, x.ndim, mesh, what))


def _identity(x: Any, *, layout: Layout) -> Any:
    return x


relayout_p.def_impl(_identity)


def _abstract(x: Any, *, layout: Layout) -> Any:
    return jax.core.ShapedArray(x.shape, x.dtype, weak_type=x.weak_type)


relayout_p.def_abstract_eval(_abstract)


def _transpose(cotangent: Any, x: Any, *, layout: Layout) -> list[Any]:
    if type(cotangent) is ad.Zero:
        return [ad.Zero(cotangent.aval)]
    return [relayout_p.bind(cotangent, layout=layout)]


ad.deflinear2(relayout_p, _transpose)


def _batch(args: Any, dims: Any, *, layout: Layout) -> Any:
    # What was one array is now many along a new dimension, which the user has said nothing about.
    (x,), (at,) = args, dims
    opened = (*layout.dims[:at], Dim((), is_open=True), *layout.dims[at:])
    return relayout_p.bind(x, layout=Layout.of(opened, layout.mesh)), at


batching.primitive_batchers[relayout_p] = _batch


def _lower(ctx: Any, x: Any, *, layout: Layout) -> Any:
    kind = key_kind(ctx.avals_in[0].dtype)
    if kind is not None:
        layout = kind.data_layout(layout)
    attributes = {
        "name": ir.StringAttr.get(COMPOSITE_NAME),
        "decomposition": ir.FlatSymbolRefAttr.get(_identity_function(ctx.module_context, x.type)),
        "composite_attributes": ir.DictAttr.get({"layout": ir.StringAttr.get(layout.asm())}),
    }
    here = ir.InsertionPoint.current
    return ir.Operation.create("stablehlo.composite", [x.type], [x], attributes, ip=here).results


jax_mlir.register_lowering(relayout_p, _lower)


def _identity_function(module_context: Any, type_: ir.Type) -> str:
    """Name of the module's function from `type_` to itself that returns its argument."""
    words = "".join(c if c.isalnum() else "_" for c in str(type_)).strip("_")
    name = f"dtensor_relayout_{words}"
    if name in module_context.symbol_table:
        return name
    with ir.Location.unknown():
        function = ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get([type_], [type_])),
            },
            ip=ir.InsertionPoint(module_context.module.body),
        )
        block = ir.Block.create_at_start(function.regions[0], [type_])
        ir.Operation.create(
            "func.return", operands=[block.arguments[0]], ip=ir.InsertionPoint(block)
        )
    module_context.symbol_table.insert(function)
    return name
