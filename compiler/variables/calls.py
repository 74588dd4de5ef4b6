"""Calling a program with variables: their values go in, and the new ones are kept."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax

from dtensor.compiler.variables.use import Use, pattern_of
from dtensor.runtime.donation import has_alias
from dtensor.runtime.tracing import current_scope
from dtensor.runtime.variables.facts import UPDATING, VariableFacts
from dtensor.runtime.variables.variable import ClosedOver, DVariable

Converter = Callable[[Any], Any]

Bound = Callable[[Sequence[DVariable], Sequence[Any]], Any]
"""Runs a program on the members and the leaves of a call, and updates the variables."""


def bound_call(
    use: Use,
    count: int,
    run: Callable[..., Sequence[jax.Array]],
    converters: Sequence[Converter],
    finish: Callable[[Sequence[jax.Array]], Any],
) -> Bound:
    """What runs a program with variables.

    Args:
        use: its variables.
        count: number of leaves of a call.
        run: starts the program.
        converters: what brings each leaf that is no variable to where the program takes it.
        finish: makes what the call returns from the results that are no new values.
    """
    firsts, updated = use.firsts, use.updated
    read = [k for k in range(len(firsts)) if k not in updated]
    plain = list(zip(use.plain_leaves(count), converters, strict=True))
    own = len(updated)

    def call(members: Sequence[DVariable], leaves: Sequence[Any]) -> Any:
        variables = [members[i] for i in firsts]
        for variable in variables:
            variable.check_usable()
        arrays: list[Any] = [None] * len(variables)
        for k in read:
            arrays[k] = variables[k]._held
        others = [convert(leaves[i]) for i, convert in plain]
        written = [variables[k] for k in updated]
        if not own:
            return finish(run(*arrays, *others))
        taken, former = _take_for_update(written)
        for k, array in zip(updated, taken, strict=True):
            arrays[k] = array
        del taken
        try:
            results = run(*arrays, *others)
        except BaseException:
            _give_back(written, former)
            raise
        _give_back(written, results[-own:])
        return finish(results)

    return call


class VariableCall:
    """Calls of a `dtensor.jit` function for arguments of some types, of which some are variables.

    Args:
        use: variables of the first program.
        bound: what runs it.
        compile: compiles another program, for these leaves.
        inline: runs the function itself on these leaves, in a function that is being traced.
    """

    def __init__(
        self,
        use: Use,
        bound: Bound,
        compile: Callable[[Sequence[Any]], tuple[Use, Bound]],
        inline: Callable[[Sequence[Any]], Any],
    ) -> None:
        self._compile = compile
        self._inline = inline
        self._start(use, bound)

    def _start(self, use: Use, bound: Bound) -> None:
        self._leaves = use.leaves
        # Not kept alive: a variable that the function no longer closes over may be replaced.
        self._captured = [_reference_to(variable) for variable in use.captured]
        self._bound = {use.pattern: bound}

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run the program on the leaves of the arguments."""
        if current_scope() is not None:
            return self._inline(leaves)
        members = [leaves[i] for i in self._leaves]
        members += [reference() for reference in self._captured]
        bound = self._bound.get(pattern_of(members))
        if bound is None or any(member is None for member in members):
            use, bound = self._compile(leaves)
            if [id(ref()) for ref in self._captured] != [id(v) for v in use.captured]:
                self._start(use, bound)
            members = use.members(leaves)
            self._bound[use.pattern] = bound
        return bound(members, leaves)


def _reference_to(variable: DVariable) -> Callable[[], DVariable | None]:
    """A weak one, but for a DTensor: as under jax.jit, the program keeps what it has found."""
    return (lambda: variable) if isinstance(variable, ClosedOver) else weakref.ref(variable)


def _take_for_update(variables: Sequence[VariableFacts]) -> tuple[list[jax.Array], list[jax.Array]]:
    """The arrays of variables that a program will write over; copies where others hold them.

    Until they have a value again, other threads that read the variables wait: one that got the old
    value in between would find it deleted.

    Returns:
        The arrays for the program, and those that the variables had, for when it does not run.
    """
    arrays = [variable._held for variable in variables]
    for variable in variables:
        variable._value = UPDATING
    shared = [
        has_alias(arrays[i]) or _references(arrays, i) > _UNSHARED for i in range(len(arrays))
    ]
    taken = list(arrays)
    try:
        for i, is_shared in enumerate(shared):
            if is_shared:
                taken[i] = jax.device_put(arrays[i], arrays[i].sharding, may_alias=False)
    except BaseException:
        _give_back(variables, arrays)
        raise
    return taken, arrays


def _give_back(variables: Sequence[VariableFacts], arrays: Sequence[jax.Array]) -> None:
    """Let variables have these arrays."""
    for variable, array in zip(variables, arrays, strict=True):
        variable._value = array


def _references(arrays: list[Any], index: int) -> int:
    return sys.getrefcount(arrays[index])


_UNSHARED = _references([object()], 0)
