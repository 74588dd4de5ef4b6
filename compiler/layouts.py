"""Trees of layouts: what their leaves may be, and leaves chosen by names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor
from dtensor.runtime.shardings import AnyLayout, AnyMesh, as_layout, as_mesh


class _Auto:
    """Stands for layouts that the planner finds, in `in_layouts` of `dtensor.jit`."""

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> str:
        return "AUTO"


AUTO = _Auto()


def is_layout_leaf(value: Any) -> bool:
    """Whether a value in a tree of layouts is one, or stands for none."""
    return value is None or isinstance(value, Layout | Sharding | PartitionSpec | _Auto)


def mesh_in(layout: Any) -> Mesh | None:
    """The mesh that a leaf of a tree of layouts brings along; None if it has none.

    Raises:
        MeshError: it is one of jax's whose axes have names that dtensor's meshes cannot have.
    """
    if isinstance(layout, Layout):
        return layout.mesh
    if isinstance(layout, NamedSharding) and isinstance(layout.mesh, jax.sharding.Mesh):
        return as_mesh(layout.mesh)
    return None


def path_text(path: Sequence[Any]) -> str:
    """A leaf's place in its tree: `layers/attn/wq`, `0/mu/layers/attn/wq`."""
    return "/".join(_key_text(key) for key in path)


def _key_text(key: Any) -> str:
    if isinstance(key, DictKey | FlattenedIndexKey):
        return str(key.key)
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, GetAttrKey):
        return str(key.name)
    return str(key).strip(".[]'\"")


_RULES = (
    "give a list of pairs of a regular expression and a layout, such as "
    '("attn/wq$", [UNSHARDED, "model"])'
)


def layouts_by_name(
    tree: Any,
    rules: Iterable[tuple[str, Sequence[Any] | AnyLayout]]
    | Mapping[str, Sequence[Any] | AnyLayout],
    mesh: AnyMesh,
) -> Any:
    """A layout for each leaf of `tree`, by the first rule whose pattern is found in its path.

    Args:
        tree: pytree of arrays, DTensors or ShapeDtypeStructs.
        rules: `(pattern, specs)` pairs: a regular expression, searched in paths such as
            `layers/attn/wq`, and what `Layout` takes: one entry per dimension; or a PartitionSpec.
            Or a dict of them, in its order.
        mesh: the mesh the layouts name, dtensor's or jax's.

    Returns:
        The same tree with layouts for leaves; what no rule matches is replicated.

    Raises:
        LayoutError: a rule is not such a pair, or its pattern no regular expression; it matches no
            leaf, or only leaves that rules before it took; or its layout does not fit a leaf. The
            message names the rule and the leaf.

    Example:
        >>> params = {"attn": {"wq": np.ones((8, 16))}}
        >>> dtensor.layouts_by_name(params, [("attn/wq$", [dtensor.UNSHARDED, "y"])], mesh)
        {'attn': {'wq': Layout([UNSHARDED, 'y'], Mesh(x=2, y=4))}}
    """
    mesh = as_mesh(mesh)
    if isinstance(rules, Mapping):
        rules = rules.items()
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise LayoutError(f"the rules are {rules!r}; {_RULES}")
    compiled = [_compiled_rule(index, rule) for index, rule in enumerate(rules)]
    leaves, treedef = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda x: isinstance(x, DTensor)
    )
    used = [0] * len(compiled)
    hidden = [0] * len(compiled)
    layouts = []
    for path, leaf in leaves:
        name = path_text(path)
        matching = [i for i, (_, regex, _) in enumerate(compiled) if regex.search(name)]
        for later in matching[1:]:
            hidden[later] += 1
        if not matching:
            layouts.append(Layout.replicated(mesh, len(jax.numpy.shape(leaf))))
            continue
        used[matching[0]] += 1
        pattern, _, specs = compiled[matching[0]]
        layouts.append(_checked_layout(specs, mesh, pattern, name, leaf))
    for index, (pattern, _, _) in enumerate(compiled):
        if not used[index]:
            raise LayoutError(_unused(pattern, hidden[index], [path for path, _ in leaves]))
    return jax.tree_util.tree_unflatten(treedef, layouts)


def _compiled_rule(index: int, rule: Any) -> tuple[str, re.Pattern[str], Any]:
    if not isinstance(rule, tuple | list) or len(rule) != 2 or not isinstance(rule[0], str):
        raise LayoutError(f"rule {index} is {rule!r}; {_RULES}")
    pattern, specs = rule
    try:
        return pattern, re.compile(pattern), specs
    except re.error as wrong:
        raise LayoutError(
            f"rule {index}, {pattern!r}, is not a regular expression: {wrong}; write \\ before a "
            "character that stands for itself"
        ) from None


def _checked_layout(
    specs: Sequence[Any] | AnyLayout, mesh: Mesh, pattern: str, name: str, leaf: Any
) -> Layout:
    shape = leaf.shape if hasattr(leaf, "shape") else jax.numpy.shape(leaf)
    try:
        given: Any = specs
        is_layout = is_layout_leaf(specs)
        layout = as_layout(specs, len(shape), mesh) if is_layout else Layout(given, mesh)
        layout.verify(shape, uneven=True)
    except LayoutError as error:
        raise LayoutError(f"rule {pattern!r} for '{name}': {error}") from None
    return layout


def _unused(pattern: str, hidden: int, paths: Sequence[Any]) -> str:
    if hidden:
        return (
            f"rule {pattern!r} has no effect: earlier rules took the {hidden} leaves it matches; "
            "move it up, or remove it"
        )
    names = [path_text(path) for path in paths]
    some = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
    return f"rule {pattern!r} matches no leaf; the leaves are {some}"
