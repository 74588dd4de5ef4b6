"""Python's operators, for DTensors and for what stands for one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

from jax._src.array import ArrayImpl

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.runtime.eager import Slot
from dtensor.runtime.methods import Methods

if TYPE_CHECKING:
    from dtensor.runtime.array import ArrayType, DTensor

# Each operator has its line, so that type checkers see what there is; a call costs microseconds, so
# nothing stands between it and the engine. `x += y` is `x = x + y`.


_OF_JAX = {
    method.__code__
    for name, method in vars(ArrayImpl).items()
    if name.startswith("__") and name.endswith("__") and isinstance(method, FunctionType)
}


def asked_by_operator() -> bool:
    """Whether an operator of a jax.Array asks its other operand for `__jax_array__`.

    Where there is none, Python asks the other operand's own operator next.
    """
    return sys._getframe(2).f_code in _OF_JAX


def _binary(name: str) -> Callable[[Any, Any], DTensor]:
    return lambda self, other: Slot.engine.binary(name, self, other)


def _unary(name: str) -> Callable[[Any], DTensor]:
    return lambda self: Slot.engine.unary(name, self)


def _update(name: str, what: str) -> Callable[[Any, Any], DTensor]:
    def update(part: Part, value: Any) -> DTensor:
        return Slot.engine.update(part._x, part._index, name, value)

    update.__name__, update.__doc__ = name, what
    return update


class Operators(Methods):
    """The operators of an array; a class that has them has `_array` and `_type`, as DTensor has."""

    __slots__ = ()

    if TYPE_CHECKING:
        _type: ArrayType

        @property
        def shape(self) -> tuple[int, ...]:
            """Global shape in elements."""

    # Element by element: == too, so that arrays are not hashable.

    __hash__ = None  # type: ignore[assignment]

    __eq__ = _binary("eq")  # type: ignore[assignment]
    __ne__ = _binary("ne")  # type: ignore[assignment]
    __lt__ = _binary("lt")
    __le__ = _binary("le")
    __gt__ = _binary("gt")
    __ge__ = _binary("ge")
    __neg__ = _unary("neg")
    __pos__ = _unary("pos")
    __abs__ = _unary("abs")
    __invert__ = _unary("invert")
    __add__ = _binary("add")
    __radd__ = _binary("radd")
    __sub__ = _binary("sub")
    __rsub__ = _binary("rsub")
    __mul__ = _binary("mul")
    __rmul__ = _binary("rmul")
    __matmul__ = _binary("matmul")
    __rmatmul__ = _binary("rmatmul")
    __truediv__ = _binary("truediv")
    __rtruediv__ = _binary("rtruediv")
    __floordiv__ = _binary("floordiv")
    __rfloordiv__ = _binary("rfloordiv")
    __mod__ = _binary("mod")
    __rmod__ = _binary("rmod")
    __pow__ = _binary("pow")
    __rpow__ = _binary("rpow")
    __and__ = _binary("and")
    __rand__ = _binary("rand")
    __or__ = _binary("or")
    __ror__ = _binary("ror")
    __xor__ = _binary("xor")
    __rxor__ = _binary("rxor")
    __lshift__ = _binary("lshift")
    __rlshift__ = _binary("rlshift")
    __rshift__ = _binary("rshift")
    __rrshift__ = _binary("rrshift")

    def __divmod__(self, other: Any) -> tuple[DTensor, DTensor]:
        return Slot.engine.divmod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[DTensor, DTensor]:
        return Slot.engine.divmod(other, self)

    def __round__(self, ndigits: int | None = None) -> DTensor:
        return self.round(ndigits or 0)

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(f"only integer scalars can be an index, not {self._type}")
        return int(self._array.addressable_data(0))

    # Elements.

    def __getitem__(self, index: Any) -> DTensor:
        return Slot.engine.get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("a DTensor cannot be changed in place; use x = x.at[index].set(value)")

    @property
    def at(self) -> At:
        """Updates of a part: `x.at[index].set(value)` is a new array."""
        return At(self)

    def __iter__(self) -> Iterator[DTensor]:
        if not self.shape:
            raise TypeError("iteration over an array without dimensions")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())


class At:
    """`x.at`, to be indexed."""

    __slots__ = ("_x",)

    def __init__(self, x: Operators) -> None:
        self._x = x

    def __repr__(self) -> str:
        return f"x.at of {self._x._type}"

    def __getitem__(self, index: Any) -> Part:
        return Part(self._x, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("a DTensor cannot be changed in place; use x = x.at[index].set(value)")


class Part:
    """`x.at[index]`: a part of an array that a method gives new values to."""

    __slots__ = ("_index", "_x")

    def __init__(self, x: Operators, index: Any) -> None:
        self._x = x
        self._index = index

    def __repr__(self) -> str:
        return f"x.at[{self._index!r}] of {self._x._type}"

    def __getattr__(self, name: str) -> Any:
        methods = [word for word in vars(Part) if not word.startswith("_")]
        raise AttributeError(
            f"x.at[index] has no method '{name}'{did_you_mean(name, methods)}", name=name, obj=self
        )

    def get(self) -> DTensor:
        """The elements there, as `x[index]`."""
        return self._x[self._index]

    set = _update("set", "The array with `value` there.")
    add = _update("add", "The array with `value` added there.")
    subtract = _update("subtract", "The array with `value` subtracted there.")
    multiply = _update("multiply", "The array multiplied by `value` there.")
    divide = _update("divide", "The array divided by `value` there.")
    power = _update("power", "The array raised to `value` there.")
    min = _update("min", "The array, no greater than `value` there.")
    max = _update("max", "The array, no less than `value` there.")
