"""Programs of tests that run on several values are compiled once: the last one is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dtensor.compiler.stages import Compiled

_last: list[tuple[Any, Compiled]] = []


def compiled_once(
    function: Any, values: Any, asked: Any, compile: Callable[[], Compiled]
) -> Compiled:
    """What `compile` gives for a function; the same again if the next call asks for the same.

    Args:
        function: what is compiled; another one each time if it is defined in a loop.
        values: the arguments, whose shapes and element types count.
        asked: all else that the program depends on, to be compared.
        compile: compiles it.
    """
    types = [(np.shape(value), jax.dtypes.result_type(value)) for value in values]
    key = (function, types, asked, jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    if not _last or _last[0][0] != key:
        _last[:] = [(key, compile())]
    return _last[0][1]
