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
    """What runs one operation on DTensors and gives DTensors."""

    unary: Callable[[str, Any], DTensor]  # of an operator's or a property's name and the operand
    binary: Callable[[str, Any, Any], DTensor]  # NotImplemented for what is no array, no number
    divmod: Callable[[Any, Any], tuple[DTensor, DTensor]]
    method: Callable[[str, Any, tuple[Any, ...], dict[str, Any]], DTensor]  # of jax.Array
    get: Callable[..., DTensor]  # x[index], of x and the index; and keywords of x.at[index].get
    update: Callable[..., DTensor]  # x.at[index].set(value, **how): x, index, "set", value, how
    to_device: Callable[[Any, Any], DTensor]  # to another mesh, or in another layout
    namespace: Callable[[str | None], Any]  # of a version of the array API
    numpy_ufunc: Callable[[Any, str, tuple[Any, ...], dict[str, Any]], Any]
    numpy_function: Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
    create: Callable[[Callable[[], Any], Any, Any, str], DTensor]  # fn, dtype, layout, who
    add: Callable[[Any, Any], None]  # to a variable's value, in its own buffer
    subtract: Callable[[Any, Any], None]

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "operations on DTensors and variables need the compiler, which is not loaded: "
            "import dtensor.compiler.eager, for variables dtensor.compiler.variables.engine"
        )


class Slot:
    """Holds the engine; before `install` one that only says that there is none."""

    engine = Engine()


def install(**work: Any) -> None:
    """Let these functions run the operations of all DTensors, by what `Engine` calls them."""
    Slot.engine = Engine(**{**vars(Slot.engine), **work})
