"""Arrays whose element type gives way to others, as a Python number's does.

Programs return arrays of plain types. jax has no function that makes an array's type weak, so that
this is a primitive: what it gives is what it got.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
from jax.interpreters import mlir as jax_mlir
from jax.sharding import Sharding

from dtensor.runtime.context import anywhere
from dtensor.runtime.tracing import Primitive

_weak = Primitive("dtensor_weak_type")


def _abstract(array: Any) -> Any:
    return array.update(weak_type=True)


def _same(ctx: Any, array: Any) -> list[Any]:
    return [array]


_weak.def_abstract_eval(_abstract)
jax_mlir.register_lowering(_weak, _same)


def weakened(array: jax.Array) -> jax.Array:
    """The array with a type that gives way to others, where it was; a copy."""
    return array if array.weak_type else _weakening(array.sharding)(array)


@lru_cache(maxsize=64)
def _weakening(sharding: Sharding) -> Callable[[jax.Array], jax.Array]:
    def weaken(array: jax.Array) -> Any:
        return _weak.bind(array)

    return anywhere(jax.jit(weaken, out_shardings=sharding))
