"""The operators, and methods without arguments: kept short, since a call costs microseconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.compiler.eager.calls import call, compiled
from dtensor.compiler.eager.mixing import (
    NUMBERS,
    array_of_list,
    is_host_array,
    place_array,
    place_number,
)
from dtensor.compiler.program import Programs
from dtensor.runtime.array import ArrayType, DTensor, in_program
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.keys import is_key
from dtensor.runtime.tracing import becomes_program, is_eager, settings
from dtensor.runtime.variables.facts import value_of

_programs = Programs()
resets.append(_programs.clear)


def _reflected(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: fn(y, x)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": jnp.add,
    "and": jnp.bitwise_and,
    "divmod": jnp.divmod,
    "eq": jnp.equal,
    "floordiv": jnp.floor_divide,
    "ge": jnp.greater_equal,
    "gt": jnp.greater,
    "le": jnp.less_equal,
    "lshift": jnp.left_shift,
    "lt": jnp.less,
    "matmul": jnp.matmul,
    "mod": jnp.remainder,
    "mul": jnp.multiply,
    "ne": jnp.not_equal,
    "or": jnp.bitwise_or,
    "pow": jnp.power,
    "rshift": jnp.right_shift,
    "sub": jnp.subtract,
    "truediv": jnp.true_divide,
    "xor": jnp.bitwise_xor,
}
_SYMBOLS = {
    "add": "+",
    "and": "&",
    "divmod": "divmod",
    "eq": "==",
    "floordiv": "//",
    "ge": ">=",
    "gt": ">",
    "le": "<=",
    "lshift": "<<",
    "lt": "<",
    "matmul": "@",
    "mod": "%",
    "mul": "*",
    "ne": "!=",
    "or": "|",
    "pow": "**",
    "rshift": ">>",
    "sub": "-",
    "truediv": "/",
    "xor": "^",
}
_OWN_FIRST = frozenset(_SYMBOLS)  # operators whose own operand is the left one
_SYMBOLS |= {f"r{name}": symbol for name, symbol in _SYMBOLS.items()}
_BINARY |= {f"r{name}": _reflected(fn) for name, fn in _BINARY.items()}

_UNARY: dict[str, Callable[..., Any]] = {
    "T": jnp.transpose,
    "abs": jnp.abs,
    "imag": jnp.imag,
    "invert": jnp.invert,
    "mT": jnp.matrix_transpose,
    "neg": jnp.negative,
    "pos": jnp.positive,
    "real": jnp.real,
}
_WRITTEN = {"abs": "abs(x)", "invert": "~x", "neg": "-x", "pos": "+x"}


def unary(name: str, x: Any) -> Any:
    """The operator or property `name` of one operand."""
    if not is_eager() and becomes_program():
        return _UNARY[name](in_program(x))
    key = (name, x._type, settings())
    run = _programs.get(key)
    if run is None:
        written = f"x of {_WRITTEN.get(name, f'x.{name}')}"
        run = _programs[key] = compiled(_UNARY[name], name, (x._type,), (written,))
    return run(x._array)


def binary(name: str, x: Any, y: Any) -> Any:
    """The operator `name` of two operands, or NotImplemented if `y` is no array and no number."""
    type_ = getattr(y, "_type", None)  # not in a try: an error of what follows would show it
    if not is_eager() and (type_ is None or becomes_program()):
        found = _traced(name, x, y)
        if found is not None:
            return found
    if type_ is not None:
        array = y._array
    else:
        if name == "pow" and type(y) is int:  # by multiplication, and of the type of x
            return call(jnp.power, (x, y), {}, name)
        placed = _placed(name, x, y)
        if placed is None:
            _refuse_container(name, y)
            return NotImplemented
        type_, array = placed
    key = (name, x._type, type_, settings())
    run = _programs.get(key)
    if run is None:
        run = _programs[key] = compiled(
            _BINARY[name], _SYMBOLS[name], (x._type, type_), _operands(name)
        )
    return run(x._array, array)


def _operands(name: str) -> list[str]:
    """What the operands of an operator are, its own first: "x of x + y"."""
    symbol, left, right = _SYMBOLS[name], "x", "y"
    written = f"divmod({left}, {right})" if symbol == "divmod" else f"{left} {symbol} {right}"
    own_first = (left, right) if name in _OWN_FIRST else (right, left)
    return [f"{operand} of {written}" for operand in own_first]


def _traced(name: str, x: Any, y: Any) -> Any:
    """The operator in a function that jax traces; None where it has no part in that."""
    y = value_of(y)
    if isinstance(y, jax.core.Tracer):
        return _BINARY[name](in_program(x), y)
    if not becomes_program():
        return None
    if isinstance(y, DTensor):
        y = in_program(y)
    elif type(y) is list and (array := array_of_list(y)) is not None:
        y = array
    is_operand = type(y) in NUMBERS or is_host_array(y)
    return _BINARY[name](in_program(x), y) if is_operand else None


_CONTAINERS = (list, tuple, set, dict)


def _refuse_container(name: str, y: Any) -> None:
    """Refuse what Python would find unequal to any array, or repeat, whatever is in it."""
    is_compared = name in ("eq", "ne")
    is_builtin = type(y) in _CONTAINERS  # classes that extend them may know the operator
    if is_builtin or (is_compared and isinstance(y, _CONTAINERS)):
        kind = type(y).__name__
        does = "compares" if is_compared else "computes"
        raise TypeError(
            f"a DTensor {_SYMBOLS[name]} a {kind} {does} no elements; make an array of the {kind}"
        )


def _placed(name: str, x: Any, y: Any) -> tuple[ArrayType, Any] | None:
    """What is no DTensor, on the mesh of `x`; None if it is no array and no number."""
    kind: Any = type(y)
    if kind in NUMBERS:
        return place_number(y, _common_dtype(x.dtype, kind, settings()), x.mesh)
    if kind is list:
        y = array_of_list(y)
    if not is_host_array(y):
        return None
    return place_array(y, x.mesh, f"the other operand of {_SYMBOLS[name]}")


@lru_cache
def _common_dtype(dtype: np.dtype[Any], kind: Any, around: Any) -> np.dtype[Any]:
    """The element type that a number of a kind takes beside an array; it gives way to it.

    A bool keeps its own: it gives way to any, and of the type of the array it would not.
    """
    if is_key(dtype):  # which have no operators: jax.numpy says so
        return np.dtype(jnp.result_type(kind(0)))
    common = np.dtype(jnp.result_type(dtype, kind(0)))
    return np.dtype(bool) if kind is bool else common


def divided(x: Any, y: Any) -> Any:
    """Quotient and remainder, of which at least one operand is a DTensor."""
    return binary("divmod", x, y) if hasattr(x, "_type") else binary("rdivmod", y, x)


def method(name: str, x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The method `name` of jax.Array."""
    return call(_method(name), (x, *args), kwargs, name)


@cache
def _method(name: str) -> Callable[..., Any]:
    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x, name)(*args, **kwargs)

    method.__name__ = f"x.{name}"  # as it is written
    return method
