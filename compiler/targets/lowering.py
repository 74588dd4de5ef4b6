"""Lowering a traced function for a machine that is not here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from traceback import extract_tb
from typing import Any

from dtensor.compiler.equations import line_of
from dtensor.compiler.targets.compilers import first_line
from dtensor.compiler.targets.target import Target
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
        line = _line_of_cause(error, equations)
        raise CompileError(
            f"{line}{target} cannot do what the function asks for; jax answers: {answer}"
        ) from error


def _line_of_cause(error: BaseException, equations: Iterable[Any]) -> str:
    """The line of the user that an error of jax is about: `file:line: `, "" where jax says none.

    jax says where an equation of a function of its own was traced. The line is then that of the
    call of this function, the last equation ahead of it that has one.
    """
    cause, line = error.__cause__, ""
    frames = extract_tb(None if cause is None else cause.__traceback__)
    if not frames:
        return ""
    wanted = frames[-1].filename, frames[-1].lineno
    for equation in equations:
        line = line_of(equation) or line
        stack = equation.source_info.traceback
        if stack is not None and wanted in [(f.file_name, f.line_num) for f in stack.frames]:
            return line
    return ""
