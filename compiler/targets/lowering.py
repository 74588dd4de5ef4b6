"""Lowering a traced function for a machine that is not here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax

from dtensor.compiler.targets.target import Target
from dtensor.compiler.targets.xla_errors import first_line
from dtensor.dialect.errors import CompileError

_CALLBACKS = ("debug_callback", "debug_print", "io_callback", "pure_callback")
_JAX = str(Path(jax.__file__).parent)


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


def line_of(equation: Any) -> str:
    """The user's line of an equation, as `file:line: `; "" where jax keeps none."""
    traceback = equation.source_info.traceback
    for frame in () if traceback is None else traceback.frames:
        if not frame.file_name.startswith(_JAX):
            return f"{frame.file_name}:{frame.line_num}: "
    return ""
