"""Compiled programs that leave their process: pickled, or as an export of jax's."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax import export

from dtensor.dialect.errors import CompileError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import ArrayType
from dtensor.runtime.context import without_mesh
from dtensor.runtime.padding import even_layout, padded
from dtensor.runtime.placement import named_sharding

if TYPE_CHECKING:
    from dtensor.compiler.program import CompiledProgram
    from dtensor.compiler.source import Source


def check_can_leave(source: Source) -> None:
    """Check that a program means the same in another process.

    Raises:
        CompileError: it calls Python functions, or uses variables or arrays from outside.
    """
    if source.calls_python:
        raise CompileError(
            f"{source.short()} calls Python functions, which another process does not have; leave "
            "out jax.debug.print and the callbacks"
        )
    if source.variables is not None:
        raise CompileError(
            f"{source.short()} uses variables or arrays from outside, which belong to this "
            "process; pass their values as arguments and return the new ones"
        )


def check_can_be_pickled(source: Source) -> None:
    """The same, and that the structure of its arguments and results can be pickled.

    Raises:
        CompileError: it cannot.
    """
    check_can_leave(source)
    try:
        pickle.dumps((source.in_tree, source.out_tree))
    except Exception as error:
        raise CompileError(
            f"{source.short()} takes or returns trees of classes that jax cannot pickle ({error}); "
            "give and return dicts, lists and tuples"
        ) from None


# XLA's own, which stand around transforms; jax lists only what it writes itself.
_STABLE = (export.DisabledSafetyCheck.custom_call("LayoutConstraint"),)


def exported(
    source: Source, program: CompiledProgram, run: Callable[..., Sequence[jax.Array]]
) -> export.Exported:
    """The program as jax's export, called as the function is, on jax.Arrays.

    Args:
        source: how the program is called.
        program: its arguments and results.
        run: the program, on the data of its arguments.

    Raises:
        CompileError: the program would not mean the same in another process.
    """
    check_can_leave(source)
    in_tree, out_tree = source.in_tree, source.out_tree
    arguments, results = program.args, program.results

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves = jax.tree_util.tree_leaves((args, kwargs))
        data = [
            padded(leaf if info.key is None else jax.random.key_data(leaf), info.layout)
            for leaf, info in zip(leaves, arguments, strict=True)
        ]
        given = []
        for array, info in zip(run(*data), results, strict=True):
            true = array[tuple(map(slice, info.shape))] if array.shape != info.shape else array
            given.append(true if info.key is None else info.key.keys(true))
        return out_tree.unflatten(given)

    call.__name__ = call.__qualname__ = source.name
    structs = [
        jax.ShapeDtypeStruct(
            info.type.shape, info.type.dtype, sharding=named_sharding(_even_layout(info.type))
        )
        for info in arguments
    ]
    args, kwargs = in_tree.unflatten(structs)
    layouts = [_even_layout(info.type) for info in results]
    shardings = out_tree.unflatten([named_sharding(layout) for layout in layouts])
    with without_mesh():
        return export.export(jax.jit(call, out_shardings=shardings), disabled_checks=_STABLE)(
            *args, **kwargs
        )


def _even_layout(type_: ArrayType) -> Layout:
    """How jax, whose shardings must divide an array, lays it out outside of the program."""
    assert type_.layout is not None
    return even_layout(type_.layout, type_.shape)
