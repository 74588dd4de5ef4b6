"""The border of a program: layouts of its arguments and results, and results made of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.tree_util import PyTreeDef

from dtensor.compiler.calls import spread_layouts
from dtensor.compiler.jax_frontend import TracedProgram
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import OPEN, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType, DTensor, new_dtensor, true_array
from dtensor.runtime.keys import KeyKind, key_kind
from dtensor.runtime.placement import layout_of


def one_mesh(meshes: Sequence[Mesh]) -> Mesh | None:
    """The mesh that all of these are; None if there are none.

    Raises:
        LayoutError: there are two.
    """
    different = list(dict.fromkeys(meshes))
    if len(different) > 1:
        raise LayoutError(
            f"a program runs on one mesh, but layouts name {different[0].short()} and "
            f"{different[1].short()}; make all layouts on one of them"
        )
    return different[0] if different else None


def mesh_of_arguments(types: Sequence[ArrayType], names: Sequence[str]) -> Mesh | None:
    """The mesh that arguments lie on; None if none lies on one.

    Raises:
        LayoutError: two lie on different meshes.
    """
    first: tuple[Mesh, str] | None = None
    for type_, name in zip(types, names, strict=True):
        layout = type_.layout
        if layout is None and type_.sharding is not None:
            layout = layout_of(type_.sharding, len(type_.shape))
        if layout is None:
            continue
        if first is None:
            first = (layout.mesh, name)
        elif layout.mesh != first[0]:
            raise LayoutError(
                f"{first[1]} lies on {first[0].short()} and {name} on {layout.mesh.short()}; "
                "relayout one of them, or pass mesh= to dtensor.jit"
            )
    return None if first is None else first[0]


def argument_layouts(
    tree: Any, types: Sequence[ArrayType], names: Sequence[str], call: PyTreeDef, mesh: Mesh
) -> tuple[Layout | None, ...]:
    """The layout of each argument; None leaves the choice to the compiler.

    Args:
        tree: `in_layouts`, as `layouts_of_call` gives them.
        types: types of the leaves of the arguments.
        names: their names.
        call: the structure of the arguments, `(args, kwargs)`.
        mesh: the mesh the program runs on.

    Raises:
        LayoutError: a layout does not fit its argument, or the tree not the arguments.
    """
    ranks = [len(t.shape) for t in types]
    given = spread_layouts(tree, call, ranks, mesh, "in_layouts")
    layouts = []
    for layout, type_, name in zip(given, types, names, strict=True):
        found = layout if layout is not None else _own_layout(type_, mesh)
        layouts.append(_fitting(found, type_.shape, f"argument {name}"))
    return tuple(layouts)


def result_layouts(tree: Any, traced: TracedProgram, mesh: Mesh) -> tuple[Layout | None, ...]:
    """The layout of each result; None leaves the choice to the compiler.

    Raises:
        LayoutError: a layout does not fit its result, or `tree`, `out_layouts`, not the results.
    """
    shapes = [info.outer_shape for info in traced.results]
    ranks = [len(shape) for shape in shapes]
    given = spread_layouts(tree, traced.out_tree, ranks, mesh, "out_layouts")
    return tuple(
        _fitting(layout, shape, info.name)
        for layout, shape, info in zip(given, shapes, traced.results, strict=True)
    )


def _layout_of_data(layout: Layout | None, key: KeyKind | None, rank: int, mesh: Mesh) -> Any:
    """The layout of what a program takes or gives: of random keys, their data, each key's whole."""
    if key is None:
        return layout
    return key.data_layout(layout or Layout([OPEN] * rank, mesh))


def data_layouts_of_types(
    layouts: Sequence[Layout | None], types: Sequence[ArrayType], mesh: Mesh
) -> tuple[Layout | None, ...]:
    """The layouts of what a program takes for arrays of these types."""
    return tuple(
        _layout_of_data(layout, key_kind(t.dtype), len(t.shape), mesh)
        for layout, t in zip(layouts, types, strict=True)
    )


def data_layouts_of_results(
    layouts: Sequence[Layout | None], traced: TracedProgram, mesh: Mesh
) -> tuple[Layout | None, ...]:
    """The layouts of what a program gives for its results."""
    return tuple(
        _layout_of_data(layout, info.key, len(info.outer_shape), mesh)
        for layout, info in zip(layouts, traced.results, strict=True)
    )


def _own_layout(type_: ArrayType, mesh: Mesh) -> Layout | None:
    """The layout an argument comes in, where it lies on the program's mesh."""
    if type_.layout is not None:
        return type_.layout if type_.layout.mesh == mesh else None
    if type_.sharding is None:
        return None
    return layout_of(type_.sharding, len(type_.shape), mesh)


def _fitting(layout: Layout | None, shape: tuple[int, ...], what: str) -> Layout | None:
    if layout is None:
        return None
    problem = layout.problem(shape, uneven=True) or layout.border_problem()
    if problem is not None:
        raise LayoutError(f"{what} cannot have the layout {layout.short()}: {problem}")
    return layout


def results_of(
    types: Sequence[ArrayType], as_jax: bool = False
) -> Callable[[Sequence[jax.Array]], list[Any]]:
    """What makes the results of a call, of these types; arrays beyond them are for others."""
    if as_jax and not any(type_.key or type_.is_padded for type_ in types):
        return lambda arrays: list(arrays[: len(types)])
    if as_jax:
        return lambda arrays: [true_array(a, t) for a, t in zip(arrays, types, strict=False)]

    def results(arrays: Sequence[jax.Array]) -> list[Any]:
        tensors = []
        for number, type_ in enumerate(types):
            tensor = new_dtensor(DTensor)
            tensor._array = arrays[number]
            tensor._type = type_
            tensors.append(tensor)
        return tensors

    return results


def finishing_named(
    name: str, finish: Callable[[Any], Any], start: Callable[..., Any]
) -> Callable[..., Any]:
    """`finish` of what `start` gives; that it is no number (`jax.debug_nans`) names the program.

    jax names no operation of a program over a mesh.
    """

    def call(*arrays: Any) -> Any:
        try:
            return finish(start(*arrays))
        except FloatingPointError as found:
            raise FloatingPointError(
                f"{name}: {str(found).rstrip('.')}; call it under jax.jit, and jax names the "
                "operation"
            ) from None

    return call
