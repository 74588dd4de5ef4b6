"""Whether jax is tracing the code that runs: values are then symbols of a program."""

from __future__ import annotations

from jax._src.core import eval_trace, trace_ctx
from jax.extend.core import (
    get_opaque_trace_state as trace_state,
)
from jax.extend.core import (  # type: ignore[attr-defined]
    unsafe_am_i_under_a_jit_DO_NOT_USE as _under_jit,
)


def is_eager() -> bool:
    """Whether no transformation of jax's is tracing: operations run as they are called."""
    return trace_ctx.trace is eval_trace  # a quarter of the time of comparing opaque states


def becomes_program() -> bool:
    """Whether what runs becomes part of a program that may be kept and run again: jit, scan, cond.

    Not so under grad or vmap alone, where Python runs again for each call.
    """
    return not is_eager() and bool(_under_jit())


__all__ = ["becomes_program", "is_eager", "trace_state"]
