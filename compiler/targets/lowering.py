"""Lowering a traced function for a machine that is not here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtensor.compiler.equations import line_of
from dtensor.compiler.targets.compilers import first_line
from dtensor.compiler.targets.target import Target
from dtensor.dialect.errors import CompileError

_CALLBACKS = ("debug_callback", "debug_print", "io_callback", "pure_callback")


def lower_for(target: Target, traced: Any, equations: Iterable[Any]) -> Any:
    """A traced function as jax lowers it for a target's platform.

    Args:
        target: the machine.
        traced: a `jax.stages.Traced`.
        equations: its equations, those of inner functions included.

    Raises:
        CompileError: the function does something that cannot be compiled for the target.
    """
    for equation in equations:
        if equation.primitive.name in _CALLBACKS:
            raise CompileError(
                f"{line_of(equation)}{equation.primitive.name} calls a Python function, which a "
                f"program compiled ahead of time for {target} cannot hold; leave it out"
            )
    platform = target.lowering_platform
    try:
        return traced.lower(lowering_platforms=(platform,))
    except (NotImplementedError, RuntimeError) as error:
        raise CompileError(
            f"{target} cannot do what the function asks for; jax answers: {first_line(error)}"
        ) from error
