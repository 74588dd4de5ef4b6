"""`relayout`: the same array, laid out another way, inside and outside of traced functions.

`relayout_like` lays it out as another array is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

import jax
import numpy as np

from dtensor.compiler.constraint import constrain_as
from dtensor.compiler.default_mesh import get_default_mesh
from dtensor.compiler.program import Programs, Run
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import ArrayType, DTensor, in_program
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.shardings import AnyLayout, layout_anywhere
from dtensor.runtime.tracing import becomes_program, is_eager
from dtensor.runtime.transfer import asked_for, fetch_layout, host_array, place
from dtensor.runtime.variables.facts import value_of

if TYPE_CHECKING:
    from dtensor.compiler.stages import Lowered
    from dtensor.passes.reports.cost import Collective

Move = tuple[ArrayType, Layout]  # an array, and the layout of its mesh that it gets


@overload
def relayout(tensor: DTensor, layout: AnyLayout, name: str | None = None) -> DTensor: ...


@overload
def relayout(tensor: jax.Array, layout: AnyLayout, name: str | None = None) -> jax.Array: ...


@overload
def relayout(tensor: Any, layout: AnyLayout, name: str | None = None) -> Any: ...


def relayout(tensor: Any, layout: AnyLayout, name: str | None = None) -> Any:
    """The array `tensor` in the layout `layout`.

    Inside a traced function this is a constraint: the value has this layout at this point of the
    program. It survives grad, vmap, scan, remat and nested jit, and under plain `jax.jit` it is the
    identity. Dimensions marked open (`"?"`) leave the choice to the compiler, and so do those
    marked `MATCH`, which outside of traced functions stay as they are.

    Args:
        tensor: a DTensor, a jax.Array or a host array, which in a traced function is a constant of
            the program; or a traced array.
        layout: one entry per dimension of `tensor`; on another mesh, the array is copied there. Or
            a NamedSharding, or a PartitionSpec: of the array's own mesh, else of the default mesh
            or that of `jax.set_mesh`.
        name: a name for the operation in profiles and locations of a traced function.

    Returns:
        A DTensor for a DTensor or a host array, a jax.Array on the mesh for a jax.Array, a traced
        array for a traced one.

    Raises:
        LayoutError: the layout has another rank, is cut into blocks, or is partial.
        TypeError: not a numeric array.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.relayout(x, dtensor.Layout.replicated(mesh, rank=2)).local_shape
        (4, 8)
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"relayout: name= is a name for profiles, got {type(name).__name__}")
    tensor = value_of(tensor)
    given = layout
    if isinstance(tensor, jax.core.Tracer) or becomes_program():
        with nullcontext() if name is None else jax.named_scope(name):
            return constrain_as(_symbol_or_constant(tensor), layout, None)
    if isinstance(tensor, DTensor) and isinstance(layout, Layout):  # soon, as calls cost little
        move = _moves.get((tensor._type, layout))
        if move is not None:
            return move(tensor._array)
    layout = _whole_layout(tensor, layout)
    if not isinstance(tensor, DTensor):
        placed = _placed(tensor, layout)
        return placed.to_jax() if isinstance(tensor, jax.Array) or not is_eager() else placed
    if tensor.layout == layout:
        return tensor
    if tensor.mesh != layout.mesh:
        return _placed(tensor, layout)
    layout.verify(tensor.shape, "relayout: an array", uneven=True)
    move = _moves[tensor._type, given] = _move(tensor, layout)
    return move(tensor._array)


@overload
def relayout_like(tensor: DTensor, layout_tensor: Any, name: str | None = None) -> DTensor: ...


@overload
def relayout_like(tensor: jax.Array, layout_tensor: Any, name: str | None = None) -> jax.Array: ...


@overload
def relayout_like(tensor: Any, layout_tensor: Any, name: str | None = None) -> Any: ...


def relayout_like(tensor: Any, layout_tensor: Any, name: str | None = None) -> Any:
    """The array `tensor` in the layout, and on the mesh, of `layout_tensor`.

    Args:
        tensor: what to lay out: a DTensor, another array, or a traced array.
        layout_tensor: a DTensor, or a jax.Array on a mesh, of the same rank; neither its element
            type nor its shape matter.
        name: a name for the operation, in a traced function.

    Raises:
        LayoutError: `layout_tensor` has no layout, or its layout does not fit `tensor`.
        TypeError: `layout_tensor` is traced: in a traced function no layout is known yet.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.relayout_like(np.zeros((6, 2)), x).layout
        Layout(['x', UNSHARDED], Mesh(x=2, y=4))
    """
    if isinstance(layout_tensor, jax.core.Tracer):
        raise TypeError(
            "relayout_like got a traced layout_tensor, whose layout is decided only after tracing; "
            "close over the DTensor itself, or use dtensor.relayout(tensor, layout)"
        )
    layout = fetch_layout(layout_tensor)
    if layout is None:
        raise LayoutError(
            f"relayout_like got a layout_tensor of type {type(layout_tensor).__name__}, which lies "
            "on no mesh; use dtensor.relayout(tensor, layout)"
        )
    return relayout(tensor, layout, name)


def copy_to_mesh(tensor: Any, layout: AnyLayout) -> DTensor:
    """Copy a host or device array to the mesh of `layout`; each device gets its shard only.

    In a traced function the array is a constant of the program, as under `relayout`.

    Args:
        tensor: a host array, a jax.Array anywhere, or a DTensor.
        layout: complete and contiguous. Or a NamedSharding or PartitionSpec, as `relayout` takes
            them.

    Raises:
        LayoutError: the layout does not fit the array.
        TypeError: not a numeric array, or a traced one.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> (x.shape, x.local_shape)
        ((4, 8), (2, 8))
    """
    if isinstance(tensor, jax.core.Tracer):
        raise TypeError("copy_to_mesh is for concrete arrays; in a traced function use relayout")
    if isinstance(tensor, DTensor) or becomes_program():
        moved: DTensor = relayout(tensor, layout)
        return moved
    return _placed(tensor, _whole_layout(tensor, layout))


def _symbol_or_constant(tensor: Any) -> jax.Array:
    """The array of the program that jax is tracing for one from outside of it."""
    if isinstance(tensor, DTensor):
        return in_program(tensor)
    return tensor if isinstance(tensor, jax.Array) else jax.numpy.asarray(host_array(tensor))


def _placed(tensor: Any, layout: Layout) -> DTensor:
    with asked_for():
        return place(tensor, layout)


def _whole_layout(tensor: Any, layout: Any) -> Layout:
    """The layout with its open and matched dimensions settled, for an array of any kind."""
    rank = tensor.ndim if isinstance(tensor, DTensor | jax.Array) else np.ndim(host_array(tensor))
    if not isinstance(layout, Layout):
        have = fetch_layout(tensor)
        layout = layout_anywhere(layout, rank, get_default_mesh() if have is None else have.mesh)
    whole: Layout = layout.for_rank(rank)
    if any(dim.is_match for dim in whole.dims):
        have = fetch_layout(tensor)
        if have is None:
            raise LayoutError(
                f"layout {whole.sharding_specs} says MATCH, but the array has no layout to match; "
                "say UNSHARDED or an axis"
            )
        whole = whole.matching(have)
    return whole.closed()


_moves = Programs()  # by type of the array and layout to move to
resets.append(_moves.clear)


def _move(tensor: DTensor, layout: Layout) -> Run:
    """The program that moves arrays of the type of `tensor` to a layout of its mesh."""
    from dtensor.compiler.eager.engine import load

    return load(_lowered(tensor._type, layout))


def sent_by(collectives: Sequence[Collective], moves: Sequence[Move]) -> list[Collective]:
    """What a call sends: its program's collectives, and those that move arguments before it."""
    return [*collectives, *chain.from_iterable(_lowered(*move).collectives for move in moves)]


def _lowered(type_: ArrayType, layout: Layout) -> Lowered:
    """The plan of moving arrays of a type to a layout of its mesh."""
    from dtensor.compiler.api import jit  # api compiles arguments' moves with this module

    tree = jax.tree.structure(((type_,), {}), is_leaf=lambda node: node is type_)

    def relayout(x: jax.Array) -> jax.Array:
        return x

    return jit(relayout, out_layouts=layout, mesh=layout.mesh)._lower((type_,), tree, None)
