"""The user's lines, of what jax traced."""

from __future__ import annotations

from typing import Any

from dtensor.dialect.diagnostics import Place


def line_of(equation: Any) -> str:
    """The line that an equation of a jaxpr comes from: `file:line: `, "" where jax keeps none."""
    traceback = equation.source_info.traceback
    for frame in () if traceback is None else traceback.frames:
        if not Place(frame.file_name, frame.line_num, 0).is_library:
            return f"{frame.file_name}:{frame.line_num}: "
    return ""
