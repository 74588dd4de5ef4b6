"""The values of variables while `dtensor.jit` traces a function.

While a function is traced, a variable stands for a symbol of the program: reading gives that
symbol, assigning replaces it, and the variable itself stays as it is. The scope keeps both apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dtensor.dialect.errors import CompileError
from dtensor.runtime.array import ArrayType, DTensor
from dtensor.runtime.array_type import as_weak
from dtensor.runtime.tracing import active, arrays_from_outside, current_scope, trace_state
from dtensor.runtime.variables.variable import ClosedOver, DVariable

# jax keeps the traces of inner functions (jit, scan, cond) by the function and the types of its
# arguments. A variable that such a function closes over is no argument, so another value of this
# context stands for another state of the variables, and jax traces again.
_state = jax.make_user_context(default_value=None)
_states = itertools.count(1)


@dataclass
class _Slot:
    """A variable within a scope."""

    variable: DVariable
    value: Any
    is_assigned: bool = False
    is_read_inside: bool = False


class Scope:
    """Context in which variables have the traced values that a program takes.

    Attributes:
        found: other variables that the function used. Their values are stand-ins of the right type,
            so the function has to be traced again with these variables among the first.
    """

    def __init__(self, variables: Sequence[DVariable], values: Sequence[Any]) -> None:
        self.found: list[DVariable] = []
        self._slots = {
            id(variable): _Slot(variable, value)
            for variable, value in zip(variables, values, strict=True)
        }
        self._closed = {v.key: v for v in variables if isinstance(v, ClosedOver)}
        self._base = trace_state()
        self._contexts = ExitStack()

    def __enter__(self) -> Scope:
        self._contexts.callback(setattr, active, "scope", current_scope())
        self._contexts.callback(setattr, active, "arrays", arrays_from_outside())
        active.scope = active.arrays = self
        self._contexts.enter_context(_state(next(_states)))
        return self

    def __exit__(self, *exception: object) -> None:
        self._contexts.close()

    def is_outside(self) -> bool:
        """Whether this is the function itself, and none that jax transforms within it."""
        return bool(trace_state() == self._base)

    def value_of(self, tensor: DTensor) -> Any:
        """The traced value of a DTensor that the function closes over."""
        key = id(tensor._array), tensor._type
        if key not in self._closed:
            self._closed[key] = ClosedOver.of(tensor)
        return self.read(self._closed[key])

    def read(self, variable: DVariable) -> Any:
        """The traced value of a variable at this point of the program."""
        slot = self._slot(variable)
        slot.is_read_inside |= not self.is_outside()
        if slot.value is None:  # made anew each time: it must not leave the trace it is made in
            return _zeros(variable._own)
        return slot.value

    def assign(self, variable: DVariable, value: Any) -> None:
        """Make an array the value of a variable from this point of the program on.

        Raises:
            CompileError: a transformation or a loop within the function is being traced.
        """
        if not self.is_outside():
            raise CompileError(
                f"variable {variable.name!r} is assigned inside a function that jax transforms or "
                "loops over (grad, vmap, scan, cond, an inner jit, ...), from where the value "
                "cannot leave by itself; return the value from there, and assign it outside"
            )
        slot = self._slot(variable)
        slot.value = value
        slot.is_assigned = True
        if slot.is_read_inside:
            slot.is_read_inside = False
            self._contexts.enter_context(_state(next(_states)))

    def assigned(self, variables: Sequence[DVariable]) -> dict[int, Any]:
        """The new values, by position in `variables`, of those that were assigned."""
        slots = [self._slots[id(variable)] for variable in variables]
        return {i: slot.value for i, slot in enumerate(slots) if slot.is_assigned}

    def _slot(self, variable: DVariable) -> _Slot:
        slot = self._slots.get(id(variable))
        if slot is None:
            variable.check_usable()
            slot = self._slots[id(variable)] = _Slot(variable, None)
            self.found.append(variable)
        return slot


def _zeros(type_: ArrayType) -> jax.Array:
    if type_.key is None:
        return as_weak(jnp.zeros(type_.shape, type_.dtype), type_.weak_type)
    data = jnp.zeros((*type_.shape, *type_.key.shape), type_.key.data_dtype)
    return type_.key.keys(data)


class ToBeWatchedError(Exception):
    """A function closes over a DTensor, and is traced as if it did not."""


class Unwatched:
    """Context in which a function is traced that is thought to close over no DTensor.

    Without a scope jax finds what it traced before of the same function.
    """

    def __enter__(self) -> None:
        self._outer = arrays_from_outside()
        active.arrays = self

    def __exit__(self, *exception: object) -> None:
        active.arrays = self._outer

    def value_of(self, tensor: DTensor) -> Any:
        """End the trace.

        Raises:
            ToBeWatchedError: always.
        """
        raise ToBeWatchedError
