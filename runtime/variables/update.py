"""Updates that write over the old value, unless somebody else still holds it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from dtensor.runtime.donation import has_alias
from dtensor.runtime.variables.facts import UPDATING

if TYPE_CHECKING:
    from dtensor.runtime.variables.variable import DVariable


def take_for_update(variables: Sequence[DVariable]) -> tuple[list[jax.Array], list[jax.Array]]:
    """The arrays of variables that a program will write over; copies where others hold them.

    Until they have a value again, other threads that read the variables wait: one that got the old
    value in between would find it deleted.

    Returns:
        The arrays for the program, and those that the variables had, for when it does not run.
    """
    arrays = [variable._held for variable in variables]
    for variable in variables:
        variable._held = UPDATING
    shared = [
        has_alias(arrays[i]) or _references(arrays, i) > _UNSHARED for i in range(len(arrays))
    ]
    taken = list(arrays)
    try:
        for i, is_shared in enumerate(shared):
            if is_shared:
                taken[i] = jax.device_put(arrays[i], arrays[i].sharding, may_alias=False)
    except BaseException:
        give_back(variables, arrays)
        raise
    return taken, arrays


def give_back(variables: Sequence[DVariable], arrays: Sequence[jax.Array]) -> None:
    """Let variables have these arrays."""
    for variable, array in zip(variables, arrays, strict=True):
        variable._held = array


def _references(arrays: list[Any], index: int) -> int:
    return sys.getrefcount(arrays[index])


_UNSHARED = _references([object()], 0)
