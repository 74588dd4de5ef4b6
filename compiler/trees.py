"""Where two trees differ, as a sentence can say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import DictKey

_SHOWN = 4


@dataclass(frozen=True)
class Difference:
    """The first place where two trees differ.

    Attributes:
        path: the place, as `[0]['w']`; empty at the root.
        found: what the first tree has there, in words.
        needed: what the second one has.
    """

    path: str
    found: str
    needed: str


class Leaf:
    """Stands for an array in a tree that is compared."""


def first_difference(
    given: Any,
    needed: Any,
    stops: Callable[[Any], bool],
    is_leaf: Callable[[Any], bool],
    path: str = "",
) -> Difference | None:
    """The first place where `given` has another structure than `needed`; None where it fits.

    Args:
        given: a tree.
        needed: another, with `Leaf()` for arrays.
        stops: whether a value of `given` fits whatever stands there: one layout for a subtree.
        is_leaf: whether a value is a leaf, though jax would look inside.
        path: where both stand in larger trees.
    """
    if stops(given):
        return None
    ours, theirs = _children(given, is_leaf), _children(needed, is_leaf)
    if ours is None and theirs is None:
        return None
    if ours is None or theirs is None or type(given) is not type(needed):
        return Difference(path, _described(given, ours), _described(needed, theirs))
    if list(ours) != list(theirs):
        return Difference(path, *_different_keys(given, needed, ours, theirs))
    for key, child in ours.items():
        below = path + jax.tree_util.keystr((key,))
        found = first_difference(child, theirs[key], stops, is_leaf, below)
        if found is not None:
            return found
    return None


def _children(node: Any, is_leaf: Callable[[Any], bool]) -> dict[Any, Any] | None:
    """What stands directly below a node, by key; None for a leaf."""
    if is_leaf(node):
        return None
    pairs = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda value: value is not node)[0]
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    return {path[0]: child for path, child in pairs}


def _described(node: Any, children: dict[Any, Any] | None) -> str:
    name = type(node).__name__
    if node is None:
        return "None"
    if children is None:
        return "one array" if isinstance(node, Leaf) else f"a leaf of type {name}"
    if isinstance(node, dict):
        return f"a {name} with {_names(list(children))}"
    return f"a {name} of {len(children)}"


def _different_keys(
    given: Any, needed: Any, ours: dict[Any, Any], theirs: dict[Any, Any]
) -> tuple[str, str]:
    extra = [key for key in ours if key not in theirs]
    missing = [key for key in theirs if key not in ours]
    if not (extra or missing) or not all(isinstance(key, DictKey) for key in (*ours, *theirs)):
        return _described(given, ours), _described(needed, theirs)
    name = type(given).__name__
    found = f"with {_names(extra)}" if extra else f"without {_names(missing)}"
    wanted = f"with {_names(missing)}" if missing else f"without {_names(extra)}"
    return f"a {name} {found}", f"a {name} {wanted}"


def _names(keys: list[Any]) -> str:
    names = [repr(getattr(key, "key", key)) for key in keys[:_SHOWN]]
    more = len(keys) - _SHOWN
    return (", ".join(names) or "no keys") + (f" and {more} more" if more > 0 else "")
