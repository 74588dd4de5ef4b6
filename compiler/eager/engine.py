"""Compiled operations: one for each function, static arguments and types of its arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef, default_registry

from dtensor.compiler.api import jit
from dtensor.compiler.border import results_of
from dtensor.compiler.eager.sharing import can_run_once, run_once
from dtensor.compiler.options import CompileOptions
from dtensor.compiler.program import Run
from dtensor.compiler.stages import Lowered
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType, dtensor_of
from dtensor.runtime.context import anywhere

OPTIONS = CompileOptions()
"""How single operations are compiled."""


@dataclass(frozen=True)
class Static:
    """An argument that a program is compiled for the value of."""

    value: Any


Leaf = Static | None
"""What a leaf of the arguments is to a program; None is an array."""


@dataclass(frozen=True)
class Operation:
    """A function and how its arguments are made of arrays and static values.

    Attributes:
        fn: the function.
        name: what messages and profiles call it.
        leaves: the leaves of its arguments.
        tree: the structure of `(args, kwargs)`.
    """

    fn: Callable[..., Any]
    name: str
    leaves: tuple[Leaf, ...]
    tree: PyTreeDef

    def __call__(self, *arrays: Any) -> Any:
        """What the function returns for these arrays, traced or not."""
        rest = iter(arrays)
        args, kwargs = self.tree.unflatten([_filled(leaf, rest) for leaf in self.leaves])
        return self.fn(*args, **kwargs)


def _filled(leaf: Leaf, arrays: Iterator[Any]) -> Any:
    return leaf.value if isinstance(leaf, Static) else next(arrays)


class NotAnArrayError(Exception):
    """A function returns something else than arrays, such as a shape; carries what that is."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def lower(
    operation: Operation,
    types: Sequence[ArrayType],
    mesh: Mesh,
    layouts: Any = None,
    any_result: bool = True,
) -> Lowered:
    """The operation as a program of arrays of these types, lowered but not compiled.

    Args:
        operation: what to run.
        types: types of its arrays, with layouts on `mesh`.
        mesh: the mesh the program runs on.
        layouts: layouts of the results, as `dtensor.jit` takes them; None leaves the choice to the
            compiler.
        any_result: whether results that are no arrays raise NotAnArrayError, instead of becoming
            arrays.
    """

    def program(*operands: Any) -> Any:
        result = operation(*operands)
        if any_result:
            _check_arrays(result)
        else:
            _check_each(result, operation.name)
        return result

    program.__name__ = program.__qualname__ = operation.name
    jitted = jit(program, out_layouts=layouts, mesh=mesh, options=OPTIONS)
    tree = default_registry.flatten((tuple(types), {}))[1]
    return jitted._lower(types, tree, None)


def load(lowered: Lowered, names: Sequence[str] | None = None) -> Run:
    """Compile a program and load it on its mesh; errors call its arguments by `names`."""
    compiled = lowered.compile()
    program, name = compiled.program, compiled._source.name
    names = names or [arg.name for arg in program.args]
    if can_run_once(program):
        run = run_once(program, name, names)
    else:
        run = compiled.executable.named(names)
    run = anywhere(run)
    types = [info.type for info in program.results]
    tree: Any = compiled._source.out_tree
    if tree == default_registry.flatten(0)[1]:

        def call(*arrays: Any) -> Any:
            try:
                (result,) = run(*arrays)
            except FloatingPointError as found:  # under jax.debug_nans
                raise _named(found, name) from None
            return dtensor_of(result, types[0])

    else:
        make_all = results_of(types)

        def call(*arrays: Any) -> Any:
            try:
                return tree.unflatten(make_all(run(*arrays)))
            except FloatingPointError as found:
                raise _named(found, name) from None

    return call


def _named(found: FloatingPointError, name: str) -> FloatingPointError:
    """The error of an operation that gave no number, which jax does not name."""
    return FloatingPointError(f"{name}: {found}")


def constant(value: Any) -> Run:
    """For an operation whose result depends on types alone."""

    def call(*arrays: Any) -> Any:
        return value

    return call


def _check_each(result: Any, name: str) -> None:
    for leaf in jax.tree_util.tree_leaves(result):
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
            raise TypeError(
                f"{name} returns a {type(leaf).__name__}, which cannot lie on a mesh; let it "
                "return arrays and numbers only"
            )


def _check_arrays(result: Any) -> None:
    leaves = jax.tree_util.tree_leaves(result)
    if not any(isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves):
        raise NotAnArrayError(result)
