"""Functions of `jax.export` that a traced one calls."""

from __future__ import annotations

import re
from typing import Any

from jax._src.interpreters.mlir import refine_polymorphic_shapes

from dtensor.dialect.errors import CompileError

_DEVICES = re.compile(r"Function (.*) was exported for (\d+) devices and is called in a context .*")


def with_known_shapes(lowered: Any) -> Any:
    """The module of a `jax.stages.Lowered`, in which every shape is known.

    What was exported for any number of elements (`jax.export.symbolic_shape`) computes its shapes
    from those of the arguments; jax itself puts numbers there only when it compiles.
    """
    module = lowered.compiler_ir("stablehlo")
    state = lowered._lowering.compile_args["shape_poly_state"]
    if state is None or not state.uses_dim_vars:
        return module
    return refine_polymorphic_shapes(module)


def refuse_other_devices(error: Exception) -> None:
    """Say what to do where a function was exported with shardings, for as many devices as those.

    Args:
        error: what jax raised while it lowered the function that calls it.

    Raises:
        CompileError: that is what the error is about.
    """
    found = _DEVICES.fullmatch(str(error))
    if found is not None:
        raise CompileError(
            f"function {found[1]} was exported for {found[2]} devices, which jax looks for around "
            "the call; call this one under jax.set_mesh(mesh), with a mesh of jax's of so many "
            "devices, or give its mlir_module_serialized to dtensor.compile_mlir"
        ) from None
