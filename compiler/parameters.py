"""The parameters of a function: what positions and names stand for, in a call of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from dtensor.compiler.layouts import is_layout_leaf
from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import LayoutError


def name_of(fn: Callable[..., Any]) -> str:
    """What messages call a function; one of which arguments are given, as the function itself."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__name__", None) or type(fn).__name__)


def file_of(fn: Callable[..., Any]) -> str:
    """The file that a function stands in, or its name where it is not of Python."""
    code = getattr(fn, "__code__", None)
    return str(code.co_filename) if code is not None else f"<{name_of(fn)}>"


def completed(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str] | None,
    what: str,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of arguments, each completed from the other by the signature of `fn`.

    Args:
        fn: the function.
        argnums: positions; negative ones count from the end of the signature. None is none.
        argnames: names, likewise.
        what: what they are for, "static" or "donate", for errors.

    Raises:
        TypeError: a position is no integer, or a name no string.
        ValueError: the function has no such argument.
    """
    nums = _each(argnums, Integral, f"{what}_argnums", "positions, as 0 or (0, 2)")
    names = _each(argnames, str, f"{what}_argnames", 'names, as "w" or ("w", "x")')
    if not (nums or names):
        return (), ()
    parameters = inspect.signature(fn).parameters
    positional = _positional(parameters)
    takes_any = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
    for name in names:
        if name not in parameters and not takes_any:
            raise ValueError(
                f"{what}_argnames: the function has no argument '{name}'"
                f"{did_you_mean(name, list(parameters))}"
            )
    variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters.values())
    for n in nums:
        if not (-len(positional) <= n < len(positional) or (variadic and n >= 0)):
            raise ValueError(
                f"{what}_argnums: the function has no argument {n}; it takes {len(positional)} by "
                "position, counted from 0"
            )
    nums = [n + len(positional) if n < 0 else n for n in nums]
    names += [positional[n] for n in nums if n < len(positional)]
    nums += [positional.index(name) for name in names if name in positional]
    return tuple(sorted(set(nums))), tuple(dict.fromkeys(names))


def _each(given: Any, kind: type, keyword: str, form: str) -> list[Any]:
    """One value, several or none, as a list."""
    if given is None:
        return []
    values = [given] if isinstance(given, kind) else given
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise TypeError(f"{keyword} is {given!r}; give {form}")
    found = list(values)
    for value in found:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{keyword} has {value!r}; give {form}")
    return found


@dataclass(frozen=True)
class Positional:
    """The parameters of a function that can be given by position and are not static.

    Attributes:
        names: their names.
        others: the name of the one that takes all further arguments, `*others`; None without it.
    """

    names: tuple[str, ...] = ()
    others: str | None = None

    @staticmethod
    def of(fn: Callable[..., Any], static_argnums: Sequence[int]) -> Positional:
        """Those of `fn`; none for an unknown signature."""
        try:
            parameters = inspect.signature(fn).parameters
        except (TypeError, ValueError):  # a builtin without a signature
            return Positional()
        names = [x for n, x in enumerate(_positional(parameters)) if n not in static_argnums]
        others = [p.name for p in parameters.values() if p.kind == p.VAR_POSITIONAL]
        return Positional(tuple(names), *others)


def _positional(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters.values() if p.kind in kinds]


def layouts_of_call(
    in_layouts: Any, positional: Positional, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """`in_layouts` in the structure of a call, `(args, kwargs)`.

    Args:
        in_layouts: a layout for all arguments; a tuple with an entry for each positional parameter,
            also for one that is given by keyword; or a mapping from names to entries, where the
            one of `*others` is a tuple, or stands for each of them.
        positional: the parameters that can be given by position.
        args: the arguments by position that are not static.
        kwargs: those by keyword.

    Raises:
        LayoutError: a name is that of no argument.
    """
    if is_layout_leaf(in_layouts):
        return (in_layouts,) * len(args), dict.fromkeys(kwargs, in_layouts)
    names = positional.names
    if isinstance(in_layouts, Mapping):
        others = [] if positional.others is None else [positional.others]
        known = dict.fromkeys([*names, *others, *kwargs])
        odd = [name for name in in_layouts if name not in known]
        if odd:
            raise LayoutError(
                f"in_layouts names {odd[0]!r}, which is no argument of the call; the arguments are "
                f"{', '.join(known)}"
            )
        by_position = [in_layouts.get(name) for name in names[: len(args)]]
        for given in map(in_layouts.get, others):
            by_position += _of_others(given, len(args) - len(by_position))
        return tuple(by_position), {name: in_layouts.get(name) for name in kwargs}
    later = dict(zip(names[len(args) :], in_layouts[len(args) :], strict=False))
    named = {name: later.pop(name, None) for name in kwargs}
    # An entry for an argument that is left to its default is not missing.
    return in_layouts[: len(args)] if len(in_layouts) <= len(names) else in_layouts, named


def _of_others(given: Any, count: int) -> Sequence[Any]:
    """The entries of the `count` arguments that no name stands for."""
    return given if isinstance(given, tuple | list) else (given,) * count
