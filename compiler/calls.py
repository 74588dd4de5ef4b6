"""The arguments of a call: static ones apart, leaves typed, layouts spread over trees."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding
from jax.tree_util import PyTreeDef, default_registry

from dtensor.compiler.layouts import AUTO, is_layout_leaf, mesh_in
from dtensor.compiler.parameters import completed
from dtensor.compiler.trees import Difference, Leaf, first_difference
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import TRACED as TRACED
from dtensor.runtime.array import ArrayType, DTensor, array_type
from dtensor.runtime.array_type import narrowed
from dtensor.runtime.keys import is_key
from dtensor.runtime.shardings import as_layout
from dtensor.runtime.transfer import refusal

is_dtensor: Callable[[Any], bool] = DTensor.__instancecheck__
"""Whether a value is a DTensor; as `is_leaf`, it makes leaves of them. A builtin, hence fast."""


quick_flatten = type(default_registry)().flatten
"""Leaves and structure of a call's arguments, in half the time that jax's registry takes.

DTensors are leaves here, without a question for each. So is whatever else jax has registered, but
for None, tuples, lists and dicts; `are_same` tells whether the leaves are those of the call.
"""


_NUMBERS = frozenset((bool, int, float, complex))
_met: set[type] = set()  # types of jax.Arrays that are no symbols


def quick_types(leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """What tells calls apart that need other programs, or other ways to bring arguments to one.

    Args:
        leaves: the leaves of a call, of `quick_flatten`.

    Returns:
        Something for each leaf, quick to compare with that of the call before: equal ones stand for
        equal `types_of`. None where a leaf is of a kind that is looked at by itself.
    """
    types: list[Any] = []
    for leaf in leaves:  # cheaper than a comprehension, which is a call
        kind = type(leaf)
        if kind is DTensor:
            types.append(leaf._type)
        elif kind in _met:
            types.append((leaf.aval, leaf.sharding if leaf.committed else None))
        elif kind in _NUMBERS:
            types.append(kind)
        elif kind is np.ndarray:
            types.append((leaf.shape, leaf.dtype))
        else:
            return None
    return tuple(types)


def are_same(leaves: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether the leaves are the same objects."""
    return len(leaves) == len(others) and all(map(operator.is_, leaves, others))


def as_jax(leaf: Any) -> Any:
    """An argument as operations of jax take it; a variable stays one."""
    if type(leaf) is DTensor:
        return leaf.to_jax()
    return jax.numpy.asarray(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf


def type_of(leaf: Any) -> ArrayType:
    """What a program has to know of a leaf of its arguments.

    Raises:
        UnfitArgumentError: the leaf is not an array.
    """
    if isinstance(leaf, DTensor):
        return leaf._type
    if isinstance(leaf, jax.core.Tracer):
        return TRACED
    if isinstance(leaf, jax.Array):
        _met.add(type(leaf))
        sharding = leaf.sharding if leaf.committed else None
        weak = getattr(leaf, "weak_type", False)  # random keys have none
        return array_type(leaf.shape, leaf.dtype, None, sharding, weak)
    if isinstance(leaf, jax.ShapeDtypeStruct):
        sharding = leaf.sharding if isinstance(leaf.sharding, Sharding) else None
        dtype = _narrow(leaf.dtype)
        return array_type(tuple(leaf.shape), dtype, None, sharding, leaf.weak_type)
    if isinstance(leaf, np.ndarray | np.generic):  # before Python's: np.float64 is a float too
        wrong = refusal(leaf)
        if wrong is not None:
            raise UnfitArgumentError(wrong)
        return array_type(leaf.shape, _narrow(leaf.dtype))
    if isinstance(leaf, bool | int | float | complex):
        dtype = np.dtype(jax.dtypes.result_type(leaf))
        return array_type((), dtype, None, None, not isinstance(leaf, bool))
    if isinstance(leaf, jax.Ref):
        raise UnfitArgumentError("is a jax.Ref, which only a call takes; give its value, ref[...]")
    raise UnfitArgumentError(
        f"of type {type(leaf).__name__} is not an array of numbers; name it in static_argnums "
        "or static_argnames if the program shall be compiled for its value"
    )


def _narrow(dtype: Any) -> Any:
    """The element type that jax gives to what it has not yet: of 32 bits while it has no wider."""
    return dtype if is_key(dtype) else jax.dtypes.canonicalize_dtype(dtype)


class UnfitArgumentError(TypeError):
    """An argument that no program can take; the message leaves out which."""


def types_of(
    leaves: Iterable[Any], names: Callable[[], Sequence[str]], of_values: bool = False
) -> tuple[ArrayType, ...]:
    """`type_of` each leaf.

    Args:
        leaves: the arguments of a call.
        names: what they are called; asked where one of them is refused.
        of_values: whether each must have values, since a program is called with it.

    Raises:
        TypeError: one of them is no array; the message names it.
    """
    types: list[ArrayType] = []
    try:
        for leaf in leaves:
            if of_values and type(leaf) is jax.ShapeDtypeStruct:
                raise UnfitArgumentError(
                    "is a ShapeDtypeStruct, which has no values; give it to lower"
                )
            types.append(leaf._type if type(leaf) is DTensor else type_of(leaf))
    except UnfitArgumentError as wrong:
        raise TypeError(f"argument {names()[len(types)]} {wrong}") from None
    return tuple(types)


def check_widths(types: Sequence[ArrayType], names: Sequence[str]) -> None:
    """Refuse arrays of element types that jax would make narrower in a program.

    Raises:
        TypeError: one has a type of 64 bits, which jax was told to have and no longer has.
    """
    for type_, name in zip(types, names, strict=True):
        wrong = narrowed(type_.dtype)
        if wrong is not None:
            raise TypeError(f"argument {name} {wrong}")


def struct_of(type_: ArrayType) -> jax.ShapeDtypeStruct:
    """Shape and element type, as jax traces them."""
    return jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=type_.weak_type)


Donated = tuple[tuple[int, ...], tuple[str, ...]]
"""Positions and names of arguments whose buffers a program may reuse."""


@dataclass(frozen=True)
class StaticArgs:
    """Which arguments a program is compiled for the value of.

    Attributes:
        argnums: their positions.
        argnames: their names.
    """

    argnums: tuple[int, ...]
    argnames: tuple[str, ...]

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        argnums: int | Sequence[int] | None,
        argnames: str | Sequence[str] | None,
    ) -> StaticArgs:
        """Positions and names, each completed from the other by the signature of `fn`.

        Raises:
            ValueError: the function has no such argument.
        """
        return cls(*completed(fn, argnums, argnames, "static"))

    def split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Hashable]:
        """The dynamic arguments, and the static ones as a key.

        Raises:
            ValueError: a static argument is not hashable.
        """
        given: list[tuple[Any, Any]] = [(n, args[n]) for n in self.argnums if n < len(args)]
        given += [(name, kwargs[name]) for name in self.argnames if name in kwargs]
        for where, value in given:
            try:
                hash(value)
            except TypeError:
                remedy = "programs are kept by it: give a tuple, a frozen dataclass or the like"
                if hasattr(value, "dtype"):
                    remedy = "an array is passed as an argument that is not static"
                raise ValueError(
                    f"static argument {where!r} of type {type(value).__name__} is not hashable; "
                    f"{remedy}"
                ) from None
        dynamic = tuple(arg for n, arg in enumerate(args) if n not in self.argnums)
        named = {name: arg for name, arg in kwargs.items() if name not in self.argnames}
        # Equal numbers of several types make several programs.
        return dynamic, named, tuple((where, value, type(value)) for where, value in given)

    def merge(
        self, args: Sequence[Any], kwargs: dict[str, Any], statics: Any
    ) -> tuple[list[Any], dict[str, Any]]:
        """All arguments, in order: the inverse of `split`."""
        every, named = list(args), dict(kwargs)
        for where, value, _ in statics or ():
            if isinstance(where, str):
                named[where] = value
            else:
                every.insert(where, value)
        return every, named

    def position(self, dynamic: int) -> int:
        """The position of the `dynamic`-th argument that is not static."""
        for n in self.argnums:
            if n <= dynamic:
                dynamic += 1
        return dynamic


def donated_leaves(
    args: tuple[Any, ...], kwargs: dict[str, Any], donated: Donated, static: StaticArgs
) -> tuple[int, ...]:
    """Indices of the leaves of the donated arguments.

    Args:
        args: the dynamic positional arguments, with DTensors or other leaves.
        kwargs: those by keyword.
        donated: which are donated.
        static: the static arguments, which cannot be donated.

    Raises:
        ValueError: an argument is static.
    """
    odd: list[Any] = [n for n in donated[0] if n in static.argnums]
    odd += [name for name in donated[1] if name in static.argnames]
    if odd:
        raise ValueError(
            f"donate_argnums: argument {odd[0]} is static, so it has no buffer to give; "
            "leave it out"
        )
    places = [static.position(n) in donated[0] for n in range(len(args))]
    places += [name in donated[1] for name in sorted(kwargs)]
    values = [*args, *[kwargs[name] for name in sorted(kwargs)]]
    indices: list[int] = []
    start = 0
    for is_donated, value in zip(places, values, strict=True):
        count = len(jax.tree_util.tree_leaves(value, is_leaf=is_dtensor))
        indices += range(start, start + count) if is_donated else ()
        start += count
    return tuple(indices)


def spread_layouts(
    tree: Any, treedef: PyTreeDef, ranks: Sequence[int], mesh: Mesh | None, what: str
) -> list[Layout | None]:
    """A layout, or None, for each leaf of a tree.

    Args:
        tree: layouts, NamedShardings, PartitionSpecs and None, for whole subtrees where they stand
            for one.
        treedef: structure of the arguments or results, with `ranks` many leaves.
        ranks: number of dimensions of each leaf.
        mesh: the mesh of the call, where it is known.
        what: `in_layouts` or `out_layouts`, for errors.

    Raises:
        LayoutError: the tree does not fit, or has something else for a leaf.
    """
    leaves = spread(tree, treedef, what)
    return [
        None if leaf is None else as_layout(leaf, rank, mesh, what)
        for leaf, rank in zip(leaves, ranks, strict=True)
    ]


def spread(tree: Any, treedef: PyTreeDef, what: str) -> list[Any]:
    """What a tree of layouts has for each leaf of another; arguments are those of `spread_layouts`.

    Raises:
        LayoutError: the tree does not fit.
    """
    if tree is None:
        return [None] * treedef.num_leaves
    full = treedef.unflatten(range(treedef.num_leaves))
    try:
        whole = jax.tree_util.tree_broadcast(tree, full, is_leaf=is_layout_leaf)
        leaves: list[Any] = treedef.flatten_up_to(whole)
    except ValueError:
        raise LayoutError(_other_structure(tree, treedef, what)) from None
    return leaves  # where the arguments have None, there is none


def without_auto(tree: Any, call: PyTreeDef) -> tuple[Any, tuple[bool, ...]]:
    """A tree of layouts with None for AUTO, and which leaves of the call it stands for.

    Args:
        tree: layouts in the structure of a call, `(args, kwargs)`, or of whole parts of it.
        call: the structure of the arguments.

    Raises:
        LayoutError: the tree does not fit the arguments.
    """
    if not any(leaf is AUTO for leaf in jax.tree.leaves(tree, is_leaf=lambda x: x is None)):
        return tree, ()
    leaves = spread(tree, call, "in_layouts")
    flags = tuple(leaf is AUTO for leaf in leaves)
    return call.unflatten([None if leaf is AUTO else leaf for leaf in leaves]), flags


def _other_structure(tree: Any, treedef: PyTreeDef, what: str) -> str:
    of_arguments = what == "in_layouts"  # in the structure of a call, (args, kwargs)
    different = tree_difference(tree, treedef, is_layout_leaf)
    if different is None:  # nodes of a registered class
        return f"{what} has a node with other static fields than what it describes; make it so"
    path = different.path[3:] if of_arguments else different.path
    if of_arguments and not path:
        return (
            f"in_layouts is {different.found}, but the arguments that are not static are "
            f"{different.needed}; give one layout, or one tree of them, for each"
        )
    have = "the arguments have" if of_arguments else "the function returns"
    return (
        f"{what}{path} is {different.found}, but {have} {different.needed} there; give "
        "the same structure with layouts for leaves, or one layout for all of a part"
    )


def tree_difference(
    given: Any, treedef: PyTreeDef, stops: Callable[[Any], bool] = lambda value: False
) -> Difference | None:
    """The first place where a tree of arrays or layouts differs from a structure; None if none.

    Args:
        given: the tree; DTensors are leaves.
        treedef: the structure.
        stops: whether a value fits whatever stands there.
    """
    needed = treedef.unflatten([Leaf()] * treedef.num_leaves)
    return first_difference(given, needed, stops, is_dtensor)


def meshes_in(tree: Any) -> list[Mesh]:
    """The meshes of the layouts in a tree, each once, in order."""
    leaves = jax.tree_util.tree_leaves(tree, is_leaf=is_layout_leaf)
    return list(dict.fromkeys(mesh for leaf in leaves if (mesh := mesh_in(leaf)) is not None))
