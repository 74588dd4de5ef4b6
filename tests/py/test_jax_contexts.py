"""Contexts that jax lowers the programs of the tests into are shared, and not by two in a row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax


def test_two_contexts_take_turns() -> None:
    modules: list[Any] = [jax.jit(lambda x, k=k: x + k).lower(1.0).compiler_ir() for k in range(6)]
    contexts = [module.context for module in modules]
    assert all(one is not next_one for one, next_one in pairwise(contexts))
    assert len({id(context) for context in contexts}) <= 4  # of six: two new ones come at a time
