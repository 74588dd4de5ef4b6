"""`call_with_layout`: a function's results created where they shall lie, shard by shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from dtensor.compiler.eager.calls import call
from dtensor.compiler.parameters import name_of
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.mesh import Mesh


def call_with_layout(fn: Callable[..., Any], layout: Any, *args: Any, **kwargs: Any) -> Any:
    """What `fn` returns, created in `layout`: no device holds more than its shards.

    The function runs once, as one program over the mesh of `layout`, whether it is jitted or not;
    programs are kept by function and arguments. In a function that jax traces it is called as it
    is, and its results get `layout` as a constraint.

    Args:
        fn: a function that jax can trace, such as `jax.numpy.ones`; named functions are better
            than lambdas made for one call, since the program belongs to the function.
        layout: the layout of each result: all of them have its rank, or it is a tree with one
            layout for each. Open dimensions are the compiler's choice. None calls `fn` as it is.
        args: arguments of `fn`: DTensors, numbers, small integer arrays, random keys; whatever else
            is compiled for, such as a shape.
        kwargs: the same by keyword.

    Returns:
        DTensors, in the structure that `fn` returns.

    Raises:
        LayoutError: the layout does not fit a result, or an array among the arguments has none.
        MeshError: an argument lies on another mesh.
        TypeError: `fn` is no function, cannot be traced with these arguments, or returns something
            else than arrays and numbers.

    Example:
        >>> tiles = dtensor.Layout(["x", "y"], mesh)
        >>> dtensor.call_with_layout(jnp.ones, tiles, shape=(6, 4)).local_shape
        (3, 1)
    """
    if not callable(fn):
        raise TypeError(f"call_with_layout needs a function first, got {type(fn).__name__}")
    if layout is None:
        return fn(*args, **kwargs)
    name = name_of(fn)
    return call(fn, args, kwargs, name, _checked(layout))


def _checked(layout: Any) -> Any:
    if isinstance(layout, str | Mesh | jax.sharding.Mesh) or layout is None:
        short = layout.short() if isinstance(layout, Mesh) else repr(layout)
        raise LayoutError(f"call_with_layout got layout {short}; give a Layout, or a tree of them")
    return layout
