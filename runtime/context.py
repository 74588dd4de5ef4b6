"""Running programs under `jax.set_mesh`: they have their own mesh, and jax's is none of theirs.

jax compiles a function anew for each mesh that is set, and refuses one on other devices.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
from jax.sharding import get_abstract_mesh


def without_mesh() -> AbstractContextManager[Any]:
    """A context in which no mesh is set; where jax is tracing, which forbids that, no change."""
    if not get_abstract_mesh().axis_names:
        return nullcontext()
    try:
        return jax.set_mesh(None)
    except ValueError:
        return nullcontext()


def anywhere(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, which does the same under any mesh."""

    def run_anywhere(*arrays: Any) -> Any:
        if get_abstract_mesh().axis_names:
            with without_mesh():
                return run(*arrays)
        return run(*arrays)

    return run_anywhere
