"""What runs single operations.

Operations are compiled, and the runtime imports no compiler: a table says where each kind of work
is done, and the first use loads it. So an array can be used however it came into the process, as by
unpickling, and a program that runs no operation loads nothing of the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dtensor.dialect.loading import load

if TYPE_CHECKING:
    from dtensor.runtime.array import DTensor

_HOMES = {
    "unary": "dtensor.compiler.eager.operators:unary",
    "binary": "dtensor.compiler.eager.operators:binary",
    "divmod": "dtensor.compiler.eager.operators:divided",
    "method": "dtensor.compiler.eager.operators:method",
    "get": "dtensor.compiler.eager.indexing:get",
    "update": "dtensor.compiler.eager.indexing:update",
    "to_device": "dtensor.compiler.eager.creation:to_device",
    "namespace": "dtensor.compiler.eager.array_api:array_namespace",
    "numpy_ufunc": "dtensor.compiler.eager.numpy_protocol:numpy_ufunc",
    "numpy_function": "dtensor.compiler.eager.numpy_protocol:numpy_function",
    "create": "dtensor.compiler.variables.engine:create",
    "add": "dtensor.compiler.variables.engine:add",
    "subtract": "dtensor.compiler.variables.engine:subtract",
}


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
        # Only what was not asked for before comes here.
        if name not in _HOMES:
            raise AttributeError(f"the engine has no '{name}'; it has {', '.join(_HOMES)}")
        module, _, function = _HOMES[name].partition(":")
        work = getattr(load(module), function)
        setattr(self, name, work)
        return work


class Slot:
    """Holds the engine."""

    engine = Engine()
