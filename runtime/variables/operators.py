"""The operators and methods of a variable: those of its value at this moment."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

# Python's names of the operators, and of the work of those that module operator does not have.
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_REFLECTED = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_UNARY = ("neg", "pos", "abs", "invert", "round", "iter", "getitem", "contains")
_BUILT_IN: dict[str, Callable[..., Any]] = {"divmod": divmod, "round": round, "iter": iter}
_PROPERTIES = ("real", "imag", "T", "mT", "at")


class ReadFirst:
    """Operators that read the value before they work; `value` is what reads it.

    A class has them by standing before DTensor among the bases. The value may be a traced array,
    whose operators are jax's.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == compares elements

    if TYPE_CHECKING:

        def value(self) -> Any:
            """The value at this moment: a DTensor, or in a traced function an array of jax."""

    def to_device(self, device: Any, /, *, stream: None = None) -> Any:
        """The value on another mesh, or in another layout; the variable stays where it is."""
        return self.value().to_device(device, stream=stream)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        values = jax.tree_util.tree_map(value_of, inputs, is_leaf=is_readable)
        return getattr(ufunc, method)(*values, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = jax.tree_util.tree_map(value_of, (args, kwargs), is_leaf=is_readable)
        return function(*args, **kwargs)

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = jax.tree_util.tree_map(value_of, (args, kwargs), is_leaf=is_readable)
        return getattr(self.value(), name)(*args, **kwargs)


def value_of(value: Any) -> Any:
    """The value of a variable; anything else as it is."""
    return value.value() if isinstance(value, ReadFirst) else value


def is_readable(value: Any) -> bool:
    """Whether a value is a variable; None too, so that trees keep it."""
    return value is None or isinstance(value, ReadFirst)


def _binary(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: work(self.value(), value_of(other))


def _reflected(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: work(value_of(other), self.value())


def _unary(work: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: work(self.value(), *map(value_of, args))


def _refusal(name: str) -> Callable[[Any, Any], Any]:
    instead = {"add": "assign_add(x)", "sub": "assign_sub(x)"}.get(name, "assign(...)")

    def refuse(self: Any, other: Any) -> Any:
        raise TypeError(
            f"an operator such as += would replace the variable by an array; use v.{instead}"
        )

    return refuse


def _property(name: str) -> property:
    doc = f"`{name}` of the value at this moment."
    return property(lambda self: getattr(self.value(), name), doc=doc)


def _work(name: str) -> Callable[..., Any]:
    return _BUILT_IN.get(name) or getattr(operator, f"__{name}__")


def _install() -> None:
    for name in (*_COMPARISONS, *_REFLECTED):
        setattr(ReadFirst, f"__{name}__", _binary(_work(name)))
    for name in _REFLECTED:
        setattr(ReadFirst, f"__r{name}__", _reflected(_work(name)))
        setattr(ReadFirst, f"__i{name}__", _refusal(name))
    for name in _UNARY:
        setattr(ReadFirst, f"__{name}__", _unary(_work(name)))
    for name in _PROPERTIES:
        setattr(ReadFirst, name, _property(name))


_install()
