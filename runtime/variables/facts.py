"""What a variable is, apart from its value."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import ArrayType, DTensor

UPDATING: Any = object()
"""What a variable has in place of its value while a program takes that and gives another."""

_WAIT_SECONDS = 10.0
_types: dict[ArrayType, ArrayType] = {}


def variable_type(type_: ArrayType) -> ArrayType:
    """The one type of variables that hold arrays of `type_`; no array has it."""
    found = _types.get(type_)
    if found is None:
        found = _types[type_] = ArrayType()
        for fact in ArrayType.__slots__:
            setattr(found, fact, getattr(type_, fact))
    return found


class VariableFacts(DTensor):
    """Properties that a variable keeps for its whole life.

    Attributes:
        trainable: for training loops, which may update only some variables.
    """

    _own: ArrayType
    _kind: ArrayType
    _name: str
    _save_as_bf16: bool
    _value: Any
    trainable: bool

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

    @_held.setter
    def _held(self, value: Any) -> None:
        self._value = value

    @property
    def name(self) -> str:
        """The variable's name."""
        return self._name

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
