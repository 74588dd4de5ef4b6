"""NumPy's functions called with DTensors: each is jax.numpy's function of the same name.

`numpy.sum(x, axis=0)` and `numpy.add(x, y)` come here through `__array_function__` and
`__array_ufunc__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.compiler.calls import is_dtensor
from dtensor.compiler.eager.by_values import looking_at_values
from dtensor.compiler.eager.calls import call
from dtensor.compiler.eager.creation import layout_of_model
from dtensor.compiler.eager.mixing import array_of_list
from dtensor.runtime.array import DTensor

# Facts of an array, without a program.
_FACTS: dict[Callable[..., Any], Callable[[Any], Any]] = {
    np.ndim: lambda x: x.ndim,
    np.shape: lambda x: x.shape,
}
# They read the values: of an array that is whole on every device, else there is an error.
_READERS = frozenset((np.array2string, np.array_repr, np.array_str, np.save, np.savetxt))
_NO_FUNCTION = "{} is not for DTensors: jax.numpy has no function of its name"
_UFUNC_DEFAULTS: dict[str, Any] = {"casting": "same_kind", "order": "K", "subok": True}


def numpy_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a ufunc of NumPy gives for DTensors.

    Raises:
        TypeError: jax.numpy has no such function, or an argument asks for what a DTensor cannot do.
    """
    name = f"numpy.{ufunc.__name__}"
    found = getattr(jnp, ufunc.__name__, None)
    if method == "__call__":
        dtype = kwargs.pop("dtype", None)
        kwargs = _ufunc_options(name, kwargs)
    else:
        name, found, dtype = f"{name}.{method}", getattr(found, method, None), None
        kwargs = _without_out(name, kwargs)
    if found is None:
        raise TypeError(_NO_FUNCTION.format(name))
    result = call(found, _arrays(inputs), kwargs, name)
    return result if dtype is None else result.astype(dtype)


def numpy_function(
    function: Callable[..., Any], types: Iterable[type], args: Any, kwargs: dict[str, Any]
) -> Any:
    """What a function of NumPy gives for DTensors; NotImplemented beside arrays of other kinds.

    Raises:
        TypeError: jax.numpy has no such function, or an argument asks for what a DTensor cannot do.
    """
    if not all(issubclass(type_, DTensor | np.ndarray | jax.Array) for type_ in types):
        return NotImplemented
    if function in _FACTS and len(args) == 1 and isinstance(args[0], DTensor):
        return _FACTS[function](args[0])
    if function in _READERS:
        return function(*jax.tree.map(_read, (args), is_leaf=is_dtensor), **kwargs)
    name = f"{function.__module__}.{function.__name__}"
    found = _counterpart(function)
    if found is None:
        raise TypeError(_NO_FUNCTION.format(name))
    layout = layout_of_model(function.__name__, args, kwargs)
    return call(found, args, _without_out(name, kwargs), name, layout)


@cache
def _counterpart(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """jax.numpy's function of the same name, in the same submodule."""
    found: Any = jnp
    for part in (*function.__module__.split(".")[1:], function.__name__):
        found = getattr(found, part, None)
    if not callable(found) or found is function:
        return None
    return looking_at_values(found)


def _without_out(name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments but `out`, which must not ask for anything."""
    out = kwargs.get("out")
    if any(array is not None for array in (out if isinstance(out, tuple) else (out,))):
        raise TypeError(f"{name} cannot write into out=: no DTensor changes; use what it returns")
    return {key: value for key, value in kwargs.items() if key != "out"}


def _ufunc_options(name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of a call of a ufunc, of which jax.numpy's take none but those left out here."""
    kept = _without_out(name, kwargs)
    if kept.pop("where", True) is not True:
        raise TypeError(
            f"{name} cannot leave elements unwritten, as where= asks; use "
            "dtensor.numpy.where(condition, result, x)"
        )
    for key, default in _UFUNC_DEFAULTS.items():
        value = kept.pop(key, default)
        if value != default:
            raise TypeError(f"{name} does not take {key}={value!r} for DTensors; leave it out")
    return kept


def _arrays(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value if (a := array_of_list(value)) is None else a for value in inputs)


def _read(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, DTensor) else value
