"""Lowering a traced function for a machine that is not here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from traceback import extract_tb
from typing import Any

from dtensor.compiler.equations import line_of
from dtensor.compiler.targets.compilers import first_line
from dtensor.compiler.targets.target import Target
from dtensor.dialect.diagnostics import Place
from dtensor.dialect.errors import CompileError

_ASKED = re.compile(r"operation \w+\(.*\) failed")
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
        answer = first_line(error)
        if _ASKED.search(answer) is not None:
            answer = (
                answer.rstrip(".")
                + "; it asks CUDA's libraries about this operation, which need a GPU here"
            )
        raise CompileError(
            f"{_line_of_cause(error)}{target} cannot do what the function asks for; jax answers: "
            f"{answer}"
        ) from error


def _line_of_cause(error: BaseException) -> str:
    """The line of the user that an error of jax is about: `file:line: `, "" where jax says none."""
    cause = error.__cause__
    for frame in reversed(extract_tb(None if cause is None else cause.__traceback__)):
        if not Place(frame.filename, frame.lineno or 0, 0).is_library:
            return f"{frame.filename}:{frame.lineno}: "
    return ""
