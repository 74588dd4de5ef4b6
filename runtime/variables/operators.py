"""The operators and methods of a variable: those of its value at this moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtensor.runtime.methods import Methods
from dtensor.runtime.operators import Operators


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

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return getattr(self.value(), name)(
            *map(value_of, args), **{key: value_of(arg) for key, arg in kwargs.items()}
        )


def value_of(value: Any) -> Any:
    """The value of a variable; anything else as it is."""
    return value.value() if isinstance(value, ReadFirst) else value


def is_readable(value: Any) -> bool:
    """Whether a value is a variable; None too, so that trees keep it."""
    return value is None or isinstance(value, ReadFirst)


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
        if isinstance(work, property) and name != "device":
            setattr(ReadFirst, name, _property(name))
        elif name in own and callable(work) and name not in ("__contains__", "__setitem__"):
            setattr(ReadFirst, name, _reading(name))
        if name.startswith("__r") and f"__{name[3:]}" in own:
            setattr(ReadFirst, f"__i{name[3:]}", _refusal(name[3:-2]))


_install()
