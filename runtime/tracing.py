"""Whether jax is tracing the code that runs, where values are symbols; and what it traces by."""

from __future__ import annotations

import threading
from typing import Any

# Not through jax.extend, which promises no more and takes 25 ms to load: it has Pallas with it.
from jax._src.config import trace_context as settings
from jax._src.core import Primitive, eval_trace, trace_ctx
from jax._src.core import get_opaque_trace_state as trace_state
from jax._src.core import unsafe_am_i_under_a_jit as _under_jit
from jax._src.util import weakref_cache_key_types as weakref_cache_key_types


def is_eager() -> bool:
    """Whether no transformation of jax's is tracing: operations run as they are called."""
    return trace_ctx.trace is eval_trace  # a quarter of the time of comparing opaque states


def becomes_program() -> bool:
    """Whether what runs becomes part of a program that may be kept and run again: jit, scan, cond.

    Not so under grad or vmap alone, where Python runs again for each call.
    """
    return not is_eager() and bool(_under_jit())


active = threading.local()
"""What `dtensor.jit` traces in this thread: its `scope`, and what has values of `arrays` for it."""


def current_scope() -> Any:
    """The `Scope`, of the compiler, that has the values of variables here; None outside of one."""
    return getattr(active, "scope", None)


def arrays_from_outside() -> Any:
    """What gives a program values for the DTensors from outside of it; None outside of one."""
    return getattr(active, "arrays", None)


__all__ = [
    "Primitive",
    "active",
    "arrays_from_outside",
    "becomes_program",
    "current_scope",
    "is_eager",
    "settings",  # all settings of jax that a program may depend on, as a key
    "trace_state",
]
