"""`jax.Ref` among the arguments of a call.

The program takes what each holds and gives what it holds afterwards: the function itself makes a
Ref of it, which jax takes out again while it traces.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from dtensor.compiler.calls import is_dtensor
from dtensor.compiler.parameters import name_of
from dtensor.compiler.relayout import relayout
from dtensor.dialect.layout import Layout


def refs_among(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, jax.Ref]:
    """The leaves of the arguments that are Refs, by number.

    Raises:
        ValueError: one of them is passed twice: which of two new values would it hold?
    """
    leaves, _ = _flatten(args, kwargs)
    found = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Ref)}
    if len(set(map(id, found.values()))) < len(found):
        raise ValueError("one jax.Ref is passed twice, and a call may write to it; pass it once")
    return found


def of_values(fn: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """`fn` of values in place of Refs; it also returns a list of those they hold in the end."""

    @functools.wraps(fn)
    def function(*args: Any, **kwargs: Any) -> tuple[Any, list[jax.Array]]:
        leaves, tree = _flatten(args, kwargs)
        refs = [jax.new_ref(leaves[i]) for i in places]
        for i, ref in zip(places, refs, strict=True):
            leaves[i] = ref
        args, kwargs = tree.unflatten(leaves)
        results = fn(*args, **kwargs)
        if any(isinstance(leaf, jax.Ref) for leaf in jax.tree.leaves(results)):
            raise ValueError(
                f"{name_of(fn)} returns a jax.Ref, which jax does not allow; return its value"
            )
        return results, [ref[...] for ref in refs]

    return function


def layouts_of_refs(refs: Iterable[jax.Ref]) -> tuple[NamedSharding | None, ...]:
    """How each lies: so it shall lie afterwards."""
    shardings = [ref.sharding for ref in refs]
    return tuple([s if isinstance(s, NamedSharding) else None for s in shardings])


def call_with_refs(
    jitted: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    refs: Mapping[int, jax.Ref],
) -> Any:
    """The results of a function of Refs, which hold what it leaves in them afterwards.

    Args:
        jitted: made of `of_values`.
        args: those of the function.
        kwargs: likewise.
        refs: the leaves that are Refs, by number.
    """
    leaves, tree = _flatten(args, kwargs)
    for i, ref in refs.items():
        leaves[i] = ref[...]
    args, kwargs = tree.unflatten(leaves)
    results, held = jitted(*args, **kwargs)
    for ref, value in zip(refs.values(), held, strict=True):
        ref[...] = jax.device_put(_value_for(ref, value), ref.sharding)
    return results


def _value_for(ref: jax.Ref, value: Any) -> jax.Array:
    """What a Ref is to hold, as jax can bring it there."""
    if not is_dtensor(value):
        array: jax.Array = value
    elif ref.sharding.is_fully_addressable and not value.is_fully_addressable:
        whole = relayout(value, Layout.replicated(value.mesh, value.ndim))
        array = whole.addressable_data(0)  # of a Ref that each client has for itself
    else:
        array = value.to_jax()
    return array


def _flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    return jax.tree_util.tree_flatten((args, kwargs), is_leaf=is_dtensor)
