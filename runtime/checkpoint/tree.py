"""What there is to save in dicts, lists, pytrees and objects, under which name."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from dtensor.dialect.errors import CheckpointError
from dtensor.runtime.checkpoint.arrays import ARRAYS

Visit = Callable[[str, Any], Any]

_PLAIN = (bool, int, float, str)
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_LIBRARIES = ("jax", "jaxlib", "dtensor", "numpy")  # their objects hold caches, not state


def is_plain(value: Any) -> bool:
    """Whether this is a number or a text, which a checkpoint keeps as it is."""
    return type(value) in _PLAIN


def transform(
    value: Any,
    name: str,
    visit: Visit,
    is_attribute: bool = False,
    inside: tuple[int, ...] = (),
) -> Any:
    """The same value, with what `visit` returns in place of each thing to save.

    Dicts, lists and attributes of objects are changed in place, tuples and other nodes of jax's
    pytrees are made anew. What is in an object's attributes and is neither an array nor a variable
    is taken for configuration and left alone; anywhere else it is an error.

    Args:
        value: an array, variable, number or text, or something that holds them.
        name: its name; names of what it holds follow after a slash.
        visit: is given a name and an array, variable, number or text; returns what to put there.
        is_attribute: whether an object around it has it as an attribute.
        inside: the ids of what is around it.

    Raises:
        CheckpointError: something that cannot be saved.
    """
    if isinstance(value, ARRAYS) or is_plain(value):
        return value if is_attribute and is_plain(value) else visit(name, value)
    if id(value) in inside:
        return value

    def child(key: Any, item: Any, is_attribute: bool = is_attribute) -> Any:
        part = f"{name}/{key}" if name else str(key)
        return transform(item, part, visit, is_attribute, (*inside, id(value)))

    if isinstance(value, dict | list):
        for key, old in list(value.items() if isinstance(value, dict) else enumerate(value)):
            _put(child(key, old), old, partial(value.__setitem__, key))
        return value
    node: Any
    found, node = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if all(path for path, _ in found):  # a leaf of jax's is itself, at an empty path
        made = [child(jax.tree_util.keystr(path, simple=True), item) for path, item in found]
        is_same = all(new is old for new, (_, old) in zip(made, found, strict=True))
        return value if is_same else node.unflatten(made)
    if _holds_state(value):
        for key, old in list(vars(value).items()):
            _put(child(key, old, True), old, partial(setattr, value, key))
    elif not is_attribute:
        raise CheckpointError(
            f"'{name}' is of type {type(value).__name__}, which cannot be saved; a checkpoint "
            "takes DTensors, variables, arrays, numbers, texts, and dicts, lists, objects of them"
        )
    return value


def _put(new: Any, old: Any, put: Callable[[Any], None]) -> None:
    if new is not old:
        put(new)


def _holds_state(value: Any) -> bool:
    home = type(value).__module__.split(".")[0]
    return hasattr(value, "__dict__") and not isinstance(value, _CODE) and home not in _LIBRARIES
