"""Calls like an earlier one, found without a look at what their arguments may be.

Binding arguments takes some 20 microseconds, as long as a small program. Most calls have DTensors,
and settings such as `axis=0`: for them a key is made in two, of the arrays' types and the settings.
Any other call has no key here, and is bound as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtensor.compiler.define_op import registered_number
from dtensor.runtime.array import DTensor
from dtensor.runtime.tracing import settings

_SETTINGS = frozenset((bool, int, str, type(None)))  # no floats: 0.0 and -0.0 are equal

Repeated = tuple[tuple[Any, ...], list[Any]]
"""What the program of a call depends on, and its arrays, in the order of the arguments."""


def repeated(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Repeated | None:
    """The key of a call and its arrays; None for a call that has other arguments than those."""
    key: list[Any] = [fn, settings(), registered_number()]
    arrays: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is DTensor:
            key.append(arg._type)
            arrays.append(arg._array)
        elif kind in _SETTINGS or (kind is tuple and _is_integers(arg)):
            key += (kind, arg)
        else:
            return None
    for name in sorted(kwargs):  # in the order of a tree's leaves, which is not that of the call
        arg = kwargs[name]
        kind = type(arg)
        if kind is DTensor:
            key += (name, arg._type)
            arrays.append(arg._array)
        elif kind in _SETTINGS or (kind is tuple and _is_integers(arg)):
            key += (name, kind, arg)
        else:
            return None
    return (tuple(key), arrays) if arrays else None


def _is_integers(value: tuple[Any, ...]) -> bool:
    return all(type(entry) is int for entry in value)
