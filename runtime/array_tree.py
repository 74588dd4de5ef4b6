"""DTensors in the trees of jax, and as operands of its operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
from jax._src.core import pytype_aval_mappings
from jax.interpreters import xla

from dtensor.dialect.errors import LayoutError
from dtensor.runtime.array import ON_HOST, ArrayType, DTensor, in_program, with_layout
from dtensor.runtime.padding import even_layout
from dtensor.runtime.placement import layout_of
from dtensor.runtime.tracing import arrays_from_outside, becomes_program


@dataclass(frozen=True)
class Kind:
    """The type of a DTensor in the structure of a tree, of which it is no part.

    All are equal, so that DTensors of several layouts can stand at one place of two trees.
    """

    type: ArrayType = field(compare=False)


def _flatten(tensor: DTensor) -> tuple[tuple[jax.Array], Kind]:
    if becomes_program() and arrays_from_outside() is not None:
        return (in_program(tensor),), Kind(tensor._type)
    return (tensor.to_jax(),), Kind(tensor._type)


def tensor_of(of: Kind, children: tuple[Any]) -> Any:
    """What a function over the leaves of a tree returned in place of a DTensor of a kind.

    An array is a DTensor, with the layout that it really has; anything else (a tracer, a shape, a
    layout) is left as it is.
    """
    (child,) = children
    kind = of.type
    if not isinstance(child, jax.Array) or isinstance(child, jax.core.Tracer):
        return child
    if child.sharding.memory_kind == ON_HOST:
        return child
    lies_nowhere = not child.committed and len(child.sharding.device_set) == 1
    if lies_nowhere and kind.layout is not None and child.shape == kind.shape:
        # Such as a gradient that does not depend on the array, made on jax's default device.
        return with_layout(child, kind.layout)
    mesh = None if kind.layout is None else kind.layout.mesh
    layout = layout_of(child.sharding, child.ndim, mesh) or layout_of(child.sharding, child.ndim)
    if kind.layout is not None and kind.is_padded and child.shape == kind.shape:
        if layout == even_layout(kind.layout, kind.shape):  # what `to_jax` gave of it
            layout = kind.layout
    return child if layout is None else with_layout(child, layout)


def _as_operand(tensor: DTensor) -> jax.Array:
    if becomes_program() and arrays_from_outside() is not None:
        return in_program(tensor)
    if becomes_program():
        raise LayoutError(  # jax would put another sentence in place of a TypeError's
            f"a function that jax traces closes over a DTensor of layout {tensor.layout.short()}, "
            "which would be a constant of the program; pass it as an argument"
        )
    return tensor.to_jax()


def _jax_type(tensor: DTensor) -> Any:
    sharding = None if tensor._type.is_padded else tensor.sharding
    return jax.typeof(jax.ShapeDtypeStruct(tensor.shape, tensor.dtype, sharding=sharding))


jax.tree_util.register_pytree_node(DTensor, _flatten, tensor_of)
xla.canonicalize_dtype_handlers[DTensor] = _as_operand  # for jax.lax
pytype_aval_mappings[DTensor] = _jax_type  # for jax.typeof
