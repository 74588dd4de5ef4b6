"""Where the engine that runs single operations is plugged in.

Operations are compiled, and the runtime knows no compiler: `dtensor.compiler.eager` installs its
engine here when it is imported, and `dtensor.compiler.variables.engine` what variables need of it
beyond. `dtensor` sees to both.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtensor.runtime.array import DTensor


class Engine(SimpleNamespace):
    """What runs one operation on DTensors and gives DTensors.

    Attributes:
        unary: `(name, x)`, an operator or a property of one operand.
        binary: `(name, x, y)`, an operator of two operands; NotImplemented for a `y` of another
            kind than arrays and numbers.
        divmod: `(x, y)`, the quotient and the remainder.
        method: `(name, x, args, kwargs)`, a method of jax.Array.
        get: `(x, index)`, which is `x[index]`.
        update: `(x, index, name, value)`, which is `x.at[index].set(value)` for the name "set".
        to_device: `(x, device)`, the array on another mesh or in another layout.
        namespace: `(api_version)`, the module of functions of arrays.
        numpy_ufunc: `(ufunc, method, inputs, kwargs)`, a call of a ufunc of NumPy.
        numpy_function: `(function, types, args, kwargs)`, of another function of NumPy.
        create: `(fn, dtype, layout, who)`, what `fn()` returns for a variable, made in shards.
        add: `(variable, delta)`, adds to the value of a variable in its own buffer.
        subtract: the same with the other sign.
        forget: drops all programs and arrays that are kept, whose devices are gone.
    """

    unary: Callable[[str, Any], DTensor]
    binary: Callable[[str, Any, Any], DTensor]
    divmod: Callable[[Any, Any], tuple[DTensor, DTensor]]
    method: Callable[[str, Any, tuple[Any, ...], dict[str, Any]], DTensor]
    get: Callable[[Any, Any], DTensor]
    update: Callable[[Any, Any, str, Any], DTensor]
    to_device: Callable[[Any, Any], DTensor]
    create: Callable[[Callable[[], Any], Any, Any, str], DTensor]

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "operations on DTensors and variables need the compiler, which is not loaded: "
            "import dtensor.compiler.eager, for variables dtensor.compiler.variables.engine"
        )


class Slot:
    """Holds the engine; before `install` one that only says that there is none."""

    engine = Engine(forget=lambda: None)


def install(**work: Any) -> None:
    """Let these functions run the operations of all DTensors, by what `Engine` calls them."""
    Slot.engine = Engine(**{**vars(Slot.engine), **work})
