"""Variables, with what they have compiled: creation in shards, moves, updates in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from dtensor.compiler.api import jit
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import DTensor
from dtensor.runtime.variables.values import initial_tensor
from dtensor.runtime.variables.variable import DVariable, enable_save_as_bf16


class _Concrete(Exception):
    """A function gave an array that is there, which need not become part of a program."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def create(fn: Callable[[], Any], dtype: Any, layout: Layout, who: str) -> DTensor:
    """What `fn` returns, made in its shards if it is traced; `who` is for messages."""

    def initial_value() -> Any:
        value = fn()
        if not isinstance(value, jax.core.Tracer):
            raise _Concrete(value)
        return jnp.asarray(value, dtype)

    try:
        created: DTensor = jit(initial_value, out_layouts=layout, mesh=layout.mesh)()
    except _Concrete as found:
        return initial_tensor(found.value, dtype, layout, who)
    return created


def _assign_add(variable: DVariable, delta: Any) -> None:
    variable.assign_add(delta)


def _assign_sub(variable: DVariable, delta: Any) -> None:
    variable.assign_sub(delta)


add, subtract = jit(_assign_add), jit(_assign_sub)

__all__ = ["DVariable", "enable_save_as_bf16"]
