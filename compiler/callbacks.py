"""Python functions that a program calls.

Every device calls them, with whole operands: the compiler replicates what it has no rule for. One
that returns values answers each device, and must give the same answer: `jax.pure_callback`. One
that returns nothing, such as `jax.debug.print`, is called once for all devices of this process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from dtensor.dialect.context import make_context, parse_module
from dtensor.runtime.splicing import python_callbacks


def once_per_run(
    bytecode: bytes, callbacks: Sequence[Callable[..., Any]], devices: int
) -> tuple[Callable[..., Any], ...]:
    """The callbacks of a module; those that return nothing act on one call in `devices`.

    Args:
        bytecode: the module.
        callbacks: Python functions by callback index.
        devices: how many devices of this process run the module.
    """
    wrapped = list(callbacks)
    with make_context():
        for op, index in python_callbacks(parse_module(bytecode)):
            if len(op.results) == 0:
                wrapped[index] = _every(devices, callbacks[index])
    return tuple(wrapped)


def _every(count: int, callback: Callable[..., Any]) -> Callable[..., Any]:
    calls = itertools.count()  # atomic: devices call from their own threads

    def call(*args: Any) -> Any:
        return callback(*args) if next(calls) % count == 0 else ()

    return call
