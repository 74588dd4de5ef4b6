"""`CompileOptions(effort=...)`: dearer plans for less search, and the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.options import CompileOptions, EffortName
from dtensor.dialect.layout import Layout
from dtensor.passes.planning.limits import EFFORTS
from dtensor.runtime.client import create_mesh
from tests.py.passes.planning.test_bound import RING
from tests.py.passes.run_passes import after

MESH = create_mesh([("x", 2), ("y", 4)])


def array(seed: int, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def wave(u: Any) -> Any:
    """Steps of a wave equation: each reads its neighbours along both dimensions."""

    def step(_: Any, pair: Any) -> Any:
        now, before = pair
        near = sum(jnp.roll(now, s, axis) for axis in (0, 1) for s in (-1, 1))
        return 2 * now - before + 0.1 * (near - 4 * now), now

    return jax.lax.fori_loop(0, 3, step, (u, u))[0]


def train(params: Any, x: Any, y: Any) -> Any:
    def loss(params: Any) -> Any:
        hidden = x
        for up, down in params:
            hidden = hidden + jnp.tanh(hidden @ up) @ down
        return ((hidden - y) ** 2).mean()

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))


PROGRAMS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "wave": (wave, (array(0, 16, 24),), (["x", "y"],)),
    "train": (
        train,
        ([(array(1, 16, 32), array(2, 32, 16))] * 2, array(3, 8, 16), array(4, 8, 16)),
        ([([None, "y"], ["y", None])] * 2, ["x", None], ["x", None]),
    ),
}


def lowered(name: str, effort: EffortName) -> dtensor.Lowered:
    fn, args, specs = PROGRAMS[name]
    layouts = jax.tree.map(lambda s: Layout(s, MESH), specs, is_leaf=_is_spec)
    options = CompileOptions(effort=effort)
    return dtensor.jit(fn, in_layouts=layouts, options=options).lower(*args)


def _is_spec(leaf: object) -> bool:
    return isinstance(leaf, list) and all(x is None or isinstance(x, str) for x in leaf)


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_more_effort_never_makes_a_dearer_plan(name: str) -> None:
    plans = [next(lowered(name, e)._result.ledger.of_kind("plan")) for e in get_args(EffortName)]
    fast, normal, best = plans
    assert fast.seconds >= normal.seconds >= best.seconds >= best.bound > 0.0
    assert best.bound >= 0.99 * best.seconds


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("effort", EFFORTS)
def test_values_do_not_depend_on_it(name: str, effort: EffortName) -> None:
    fn, args, _ = PROGRAMS[name]
    expected = jax.jit(fn)(*args)
    found = lowered(name, effort).compile()(*args)
    pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True)
    for want, got in pairs:
        # Sums of up to 32 float32 products, in another order: a few roundings of order 1.
        np.testing.assert_allclose(np.asarray(got), want, rtol=2e-5, atol=2e-5)


def test_the_pass_has_the_option_too() -> None:
    best = "builtin.module(dtensor-import, dtensor-propagate{effort=best})"
    with after(best, RING) as (_, state):
        (record,) = state.ledger.of_kind("plan")
    assert record.bound > 0.0
    slow = "builtin.module(dtensor-import, dtensor-propagate{effort=slow})"
    with (
        pytest.raises(dtensor.CompileError, match="is 'slow'; give one of fast, normal, best"),
        after(slow, RING),
    ):
        pass
