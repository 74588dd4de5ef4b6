"""The arguments of a call: static ones apart, leaves typed, layouts spread over trees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding
from jax.tree_util import PyTreeDef

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType, DTensor, array_type
from dtensor.runtime.shardings import as_layout, is_layout_leaf, mesh_in
from dtensor.runtime.tracing import TRACED as TRACED

is_dtensor: Callable[[Any], bool] = DTensor.__instancecheck__
"""Whether a value is a DTensor; as `is_leaf`, it makes leaves of them. A builtin, hence fast."""


def type_of(leaf: Any) -> ArrayType:
    """What a program has to know of a leaf of its arguments.

    Raises:
        TypeError: the leaf is not an array.
    """
    if isinstance(leaf, DTensor):
        return leaf._type
    if isinstance(leaf, jax.core.Tracer):
        return TRACED
    if isinstance(leaf, jax.Array):
        sharding = leaf.sharding if leaf.committed else None
        weak = getattr(leaf, "weak_type", False)  # random keys have none
        return array_type(leaf.shape, leaf.dtype, None, sharding, weak)
    if isinstance(leaf, jax.ShapeDtypeStruct):
        sharding = leaf.sharding if isinstance(leaf.sharding, Sharding) else None
        return array_type(tuple(leaf.shape), leaf.dtype, None, sharding, leaf.weak_type)
    if isinstance(leaf, bool | int | float | complex):
        dtype = np.dtype(jax.dtypes.result_type(leaf))
        return array_type((), dtype, None, None, not isinstance(leaf, bool))
    if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind not in "OSUMm":
        return array_type(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))
    raise TypeError(
        f"argument of type {type(leaf).__name__} is not an array; name it in static_argnums or "
        "static_argnames if the program shall be compiled for its value"
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
                raise ValueError(f"static_argnames: the function has no argument '{name}'")
        variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters.values())
        nums = [n + len(positional) if n < 0 else n for n in nums]
        for n in nums:
            if not (0 <= n < len(positional) or (variadic and n >= 0)):
                raise ValueError(f"static_argnums: the function has no argument {n}")
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
                    f"static argument {where!r} of type {type(value).__name__} is not hashable"
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
        why = "is static" if odd in static.argnums else "was not given by position"
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
        tree: layouts, NamedShardings, PartitionSpecs and None, for whole subtrees where they stand
            for one.
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
        spread = jax.tree_util.tree_broadcast(tree, full, is_leaf=is_layout_leaf)
        leaves = treedef.flatten_up_to(spread)  # where the arguments have None, there is no leaf
    except ValueError as error:
        raise LayoutError(
            f"{what} has another structure than what it describes, {treedef}: {error}"
        ) from None
    return [_layout_leaf(leaf, rank, mesh, what) for leaf, rank in zip(leaves, ranks, strict=True)]


def meshes_in(tree: Any) -> list[Mesh]:
    """The meshes of the layouts in a tree, each once, in order."""
    leaves = jax.tree_util.tree_leaves(tree, is_leaf=is_layout_leaf)
    return list(dict.fromkeys(mesh for leaf in leaves if (mesh := mesh_in(leaf)) is not None))


def _layout_leaf(leaf: Any, rank: int, mesh: Mesh | None, what: str) -> Layout | None:
    return None if leaf is None else as_layout(leaf, rank, mesh, what)
