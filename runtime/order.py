"""Programs that call Python in order: all of it is called when a run of the program returns.

Within a program tokens keep the order, and each run starts an order of its own. Runs go on behind
the back of the caller; so each device gives one more element, when it is done, and that is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Run = Callable[..., Sequence[jax.Array]]


def is_ordered(bytecode: bytes) -> bool:
    """Whether the module begins an order; bytecode keeps operation names as plain text."""
    return b"after_all" in bytecode


def with_end(body: Run) -> Run:
    """The program of one device, with an element more at the end of its results."""

    def ending(*args: Any) -> tuple[Any, ...]:
        return (*body(*args), jnp.zeros(1, bool))

    ending.__name__ = ending.__qualname__ = body.__name__
    return ending


def waiting(run: Run) -> Run:
    """A run of such a program that returns its own results, when they are computed."""

    def run_and_wait(*arrays: Any) -> Sequence[jax.Array]:
        *results, end = run(*arrays)
        jax.block_until_ready(end)
        return results

    return run_and_wait
