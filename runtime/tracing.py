"""Whether jax is tracing the code that runs: values are then symbols of a program."""

from __future__ import annotations

import jax
from jax.extend.core import (
    get_opaque_trace_state as trace_state,
)
from jax.extend.core import (  # type: ignore[attr-defined]
    unsafe_am_i_under_a_jit_DO_NOT_USE as _under_jit,
)

with jax.core.eval_context():
    EAGER = trace_state()
    """The state in which no transformation of jax's is tracing."""


def is_eager() -> bool:
    """Whether no transformation of jax's is tracing: operations run as they are called."""
    return bool(trace_state() == EAGER)


def becomes_program() -> bool:
    """Whether what runs becomes part of a program that may be kept and run again: jit, scan, cond.

    Not so under grad or vmap alone, where Python runs again for each call.
    """
    return not is_eager() and bool(_under_jit())


__all__ = ["EAGER", "becomes_program", "is_eager", "trace_state"]
