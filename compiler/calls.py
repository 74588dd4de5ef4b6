"""The arguments of a call: static ones apart, leaves typed, layouts spread over trees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding
from jax.tree_util import PyTreeDef

from dtensor.compiler.trees import Difference, Leaf, first_difference
from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType, DTensor, array_type
from dtensor.runtime.placement import layout_of
from dtensor.runtime.tracing import TRACED as TRACED

is_dtensor: Callable[[Any], bool] = DTensor.__instancecheck__
"""Whether a value is a DTensor; as `is_leaf`, it makes leaves of them. A builtin, hence fast."""


def type_of(leaf: Any) -> ArrayType:
    """What a program has to know of a leaf of its arguments.

    Raises:
        UnfitArgumentError: the leaf is not an array, or one of extended element type.
    """
    if isinstance(leaf, DTensor):
        return leaf._type
    if isinstance(leaf, jax.core.Tracer):
        return TRACED
    if isinstance(leaf, jax.Array):
        _refuse_extended(leaf.dtype)
        sharding = leaf.sharding if leaf.committed else None
        return array_type(leaf.shape, leaf.dtype, None, sharding, leaf.weak_type)
    if isinstance(leaf, jax.ShapeDtypeStruct):
        _refuse_extended(leaf.dtype)
        sharding = leaf.sharding if isinstance(leaf.sharding, Sharding) else None
        return array_type(tuple(leaf.shape), leaf.dtype, None, sharding, leaf.weak_type)
    if isinstance(leaf, bool | int | float | complex):
        dtype = np.dtype(jax.dtypes.result_type(leaf))
        return array_type((), dtype, None, None, not isinstance(leaf, bool))
    if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind not in "OSUMm":
        return array_type(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))
    of = f" of {leaf.dtype}" if isinstance(leaf, np.ndarray | np.generic) else ""
    raise UnfitArgumentError(
        f"of type {type(leaf).__name__}{of} is not an array of numbers; name it in static_argnums "
        "or static_argnames if the program shall be compiled for its value"
    )


class UnfitArgumentError(TypeError):
    """An argument that no program can take; the message leaves out which."""


def types_of(leaves: Iterable[Any], names: Callable[[], Sequence[str]]) -> tuple[ArrayType, ...]:
    """`type_of` each leaf.

    Args:
        leaves: the arguments of a call.
        names: what they are called; asked where one of them is refused.

    Raises:
        TypeError: one of them is no array; the message names it.
    """
    types = []
    for leaf in leaves:
        try:
            types.append(type_of(leaf))
        except UnfitArgumentError as wrong:
            raise TypeError(f"argument {names()[len(types)]} {wrong}") from None
    return tuple(types)


def _refuse_extended(dtype: Any) -> None:
    if jax.numpy.issubdtype(dtype, jax.dtypes.extended):
        raise UnfitArgumentError(
            f"has extended element type {dtype}; pass jax.random.key_data(key), and use "
            "jax.random.wrap_key_data inside"
        )


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
        argnums: int | Sequence[int],
        argnames: str | Sequence[str],
    ) -> StaticArgs:
        """Positions and names, each completed from the other by the signature of `fn`.

        Raises:
            ValueError: the function has no such argument.
        """
        nums = [argnums] if isinstance(argnums, int) else list(argnums)
        names = [argnames] if isinstance(argnames, str) else list(argnames)
        if not (nums or names):
            return cls((), ())
        parameters = inspect.signature(fn).parameters
        positional = [
            p.name
            for p in parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        takes_any = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
        for name in names:
            if name not in parameters and not takes_any:
                raise ValueError(
                    f"static_argnames: the function has no argument '{name}'"
                    f"{did_you_mean(name, list(parameters))}"
                )
        variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters.values())
        nums = [n + len(positional) if n < 0 else n for n in nums]
        for n in nums:
            if not (0 <= n < len(positional) or (variadic and n >= 0)):
                raise ValueError(
                    f"static_argnums: the function has no argument {n}; it takes "
                    f"{len(positional)} by position, counted from 0"
                )
        names += [positional[n] for n in nums if n < len(positional)]
        nums += [positional.index(name) for name in names if name in positional]
        return cls(tuple(sorted(set(nums))), tuple(dict.fromkeys(names)))

    def split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Hashable]:
        """The dynamic arguments, and the static ones as a key.

        Raises:
            ValueError: a static argument is not hashable.
        """
        by_position = tuple((n, args[n]) for n in self.argnums if n < len(args))
        by_name = tuple((name, kwargs[name]) for name in self.argnames if name in kwargs)
        for where, value in (*by_position, *by_name):
            try:
                hash(value)
            except TypeError:
                raise ValueError(
                    f"static argument {where!r} of type {type(value).__name__} is not hashable; "
                    "programs are kept by it: give a tuple, a frozen dataclass or the like"
                ) from None
        dynamic = tuple(arg for n, arg in enumerate(args) if n not in self.argnums)
        named = {name: arg for name, arg in kwargs.items() if name not in self.argnames}
        return dynamic, named, (by_position, by_name)

    def merge(
        self, args: Sequence[Any], kwargs: dict[str, Any], statics: Any
    ) -> tuple[list[Any], dict[str, Any]]:
        """All arguments, in order: the inverse of `split`."""
        if not statics:
            return list(args), kwargs
        by_position, by_name = statics
        merged = list(args)
        for n, value in by_position:
            merged.insert(n, value)
        return merged, {**kwargs, **dict(by_name)}

    def position(self, dynamic: int) -> int:
        """The position of the `dynamic`-th argument that is not static."""
        for n in self.argnums:
            if n <= dynamic:
                dynamic += 1
        return dynamic


def donated_leaves(
    args: tuple[Any, ...], donate_argnums: int | Sequence[int], static: StaticArgs
) -> tuple[int, ...]:
    """Indices of the leaves of the donated arguments.

    Args:
        args: the dynamic positional arguments, with DTensors or other leaves.
        donate_argnums: positions among all arguments.
        static: the static arguments, which cannot be donated.

    Raises:
        ValueError: an argument is static, or not there.
    """
    wanted = {donate_argnums} if isinstance(donate_argnums, int) else set(donate_argnums)
    donated: list[int] = []
    start = 0
    positions = [static.position(n) for n in range(len(args))]
    total = len(args) + len(static.argnums)
    wanted = {n + total if n < 0 else n for n in wanted}
    if not wanted <= set(positions):
        odd = min(wanted - set(positions))
        why = "was not given by position; name one that is"
        if odd in static.argnums:
            why = "is static, so it has no buffer to give; leave it out"
        raise ValueError(f"donate_argnums: argument {odd} {why}")
    for position, arg in zip(positions, args, strict=True):
        count = len(jax.tree_util.tree_leaves(arg, is_leaf=is_dtensor))
        if position in wanted:
            donated += range(start, start + count)
        start += count
    return tuple(donated)


def spread_layouts(
    tree: Any, treedef: PyTreeDef, ranks: Sequence[int], mesh: Mesh | None, what: str
) -> list[Layout | None]:
    """A layout, or None, for each leaf of a tree.

    Args:
        tree: layouts, NamedShardings and None, for whole subtrees where they stand for one.
        treedef: structure of the arguments or results, with `ranks` many leaves.
        ranks: number of dimensions of each leaf.
        mesh: the mesh of the call, where it is known.
        what: `in_layouts` or `out_layouts`, for errors.

    Raises:
        LayoutError: the tree does not fit, or has something else for a leaf.
    """
    if tree is None:
        return [None] * treedef.num_leaves
    full = treedef.unflatten(range(treedef.num_leaves))
    try:
        spread = jax.tree_util.tree_broadcast(tree, full, is_leaf=_is_layout_leaf)
        leaves = treedef.flatten_up_to(spread)  # where the arguments have None, there is no leaf
    except ValueError:
        raise LayoutError(_other_structure(tree, treedef, what)) from None
    return [_layout_leaf(leaf, rank, mesh, what) for leaf, rank in zip(leaves, ranks, strict=True)]


def _other_structure(tree: Any, treedef: PyTreeDef, what: str) -> str:
    of_arguments = what == "in_layouts"
    different = tree_difference(tree, treedef, _is_layout_leaf)
    if different is None:  # nodes of a registered class
        return f"{what} has a node with other static fields than what it describes; make it so"
    if of_arguments and not different.path:
        return (
            f"in_layouts is {different.found}, but the arguments that are not static are "
            f"{different.needed}; give one layout, or one tree of them, for each"
        )
    have = "the arguments have" if of_arguments else "the function returns"
    return (
        f"{what}{different.path} is {different.found}, but {have} {different.needed} there; give "
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
    leaves = jax.tree_util.tree_leaves(tree, is_leaf=_is_layout_leaf)
    return list(dict.fromkeys(leaf.mesh for leaf in leaves if isinstance(leaf, Layout)))


def _is_layout_leaf(value: Any) -> bool:
    return value is None or isinstance(value, Layout | Sharding)


def _layout_leaf(leaf: Any, rank: int, mesh: Mesh | None, what: str) -> Layout | None:
    if isinstance(leaf, NamedSharding):
        layout = layout_of(leaf, rank, mesh)
        if layout is None:
            where = "a mesh" if mesh is None else mesh.short()
            raise LayoutError(f"{what}: {leaf} is not a sharding over {where}")
        return layout
    if leaf is None or isinstance(leaf, Layout):
        return leaf
    raise LayoutError(f"{what} holds {leaf!r}; its leaves are Layouts, or None to leave the choice")
