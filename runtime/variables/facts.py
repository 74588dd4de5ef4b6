"""What a variable is apart from its value, how that is swapped, and operators that read it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import ArrayType, DTensor
from dtensor.runtime.operators import Methods, Operators

UPDATING: Any = object()
"""Stands in place of a value while a program takes that and gives another."""

_WAIT_SECONDS = 10.0


@cache
def variable_type(type_: ArrayType) -> ArrayType:
    """The one type of variables that hold arrays of `type_`; no array has it."""
    made = ArrayType()
    for fact in ArrayType.__slots__:
        setattr(made, fact, getattr(type_, fact))
    return made


class VariableFacts(DTensor):
    """Properties that a variable keeps for its whole life, and operators that read its value.

    The value may be a traced array, whose operators are jax's.

    Attributes:
        name: for messages and checkpoints.
        trainable: for training loops, which may update only some variables.
    """

    _own: ArrayType
    _kind: ArrayType
    _save_as_bf16: bool
    _value: Any
    name: str
    trainable: bool
    __slots__ = ("_kind", "_own", "_save_as_bf16", "_value", "name", "trainable")
    __hash__ = None  # type: ignore[assignment]  # == compares elements

    def value(self) -> DTensor:
        """The value at this moment: a DTensor, or in a traced function an array of jax."""
        raise AssertionError(f"{type(self).__name__} does not define value()")

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return getattr(self.value(), name)(
            *map(value_of, args), **{key: value_of(arg) for key, arg in kwargs.items()}
        )

    @property
    def _held(self) -> Any:
        """The value; while another thread updates it, once it has."""
        end = 0.0
        while (held := self._value) is UPDATING:
            end = end or time.monotonic() + _WAIT_SECONDS
            if time.monotonic() > end:
                raise RuntimeError(
                    f"variable {self.name!r} is being updated by a program that does not start; a "
                    "function that the program calls cannot read it"
                )
            time.sleep(1e-4)
        return held

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape in elements."""
        return self._own.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._own.dtype

    @property
    def nbytes(self) -> int:
        """Global size in bytes; a replica does not count again."""
        return self.size * self.dtype.itemsize

    @property
    def layout(self) -> Layout:
        """How the values are laid out; the same for the variable's whole life."""
        if self._own.layout is None:
            raise LayoutError("what jax maps over a variable has no layout of its own")
        return self._own.layout

    @property
    def handle(self) -> str:
        """The variable without its value, to be printed: as TensorFlow prints a resource."""
        device = next(iter(self.mesh.local_devices()), "")
        shape = ",".join(map(str, self.shape))
        return (
            f'DVariable(<ResourceHandle(name="{self.name}", device="{device}", dtype and '
            f'shapes : "[ {self.dtype}, Shape: [{shape}] ]")>, '
            f'layout="{self.layout.to_string()}", shape=(), dtype=resource)'
        )

    @property
    def save_as_bf16(self) -> bool:
        """Whether checkpoints hold the values as bfloat16, half as large; float32 only."""
        return self._save_as_bf16

    @save_as_bf16.setter
    def save_as_bf16(self, wanted: bool) -> None:
        if wanted and self.dtype != np.float32:
            raise TypeError(
                f"variable {self.name!r} is of {self.dtype}; only float32 can be saved as bfloat16"
            )
        self._save_as_bf16 = bool(wanted)


def value_of(value: Any) -> Any:
    """The value of a variable, those of an index that holds some too; anything else as it is."""
    if type(value) is tuple:
        return tuple(map(value_of, value))
    return value.value() if isinstance(value, VariableFacts) else value


def is_readable(value: Any) -> bool:
    """Whether a value is a variable; None too, so that trees keep it."""
    return value is None or isinstance(value, VariableFacts)


def _reading(name: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self.value(), name)(*map(value_of, args))


def _property(name: str) -> property:
    return property(lambda self: getattr(self.value(), name), doc=f"`{name}` of the value.")


def _refusal(name: str) -> Callable[[Any, Any], Any]:
    instead = {"add": "assign_add(x)", "sub": "assign_sub(x)"}.get(name, "assign(...)")

    def refuse(self: Any, other: Any) -> Any:
        raise TypeError(
            f"an operator such as += would replace the variable by an array; use v.{instead}"
        )

    return refuse


def _install() -> None:
    own = vars(Operators)
    for name, work in (*own.items(), *vars(Methods).items()):
        if isinstance(work, property):
            setattr(VariableFacts, name, _property(name))
        elif name in own and callable(work) and name not in ("__contains__", "__setitem__"):
            setattr(VariableFacts, name, _reading(name))
        if name.startswith("__r") and f"__{name[3:]}" in own:
            setattr(VariableFacts, f"__i{name[3:]}", _refusal(name[3:-2]))


_install()
