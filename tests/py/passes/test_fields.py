"""Steps of several fields, whose edges go in one message, on 8 devices and on 6 against one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, run, sent

SIX = create_mesh([("x", 3), ("y", 2)])

Step = Callable[..., Any]
Around = Callable[[Any, int, int], Any]  # the element so far along a dimension


def on_a_torus(a: Any, distance: int, dim: int) -> Any:
    return jnp.roll(a, -distance, dim)


def between_walls(a: Any, distance: int, dim: int) -> Any:
    """Zero beyond the edge."""
    widths = [(1, 1) if d == dim else (0, 0) for d in range(2)]
    return lax.slice_in_dim(jnp.pad(a, widths), 1 + distance, 1 + distance + a.shape[dim], axis=dim)


def fields() -> list[Any]:
    random = np.random.default_rng(0)
    return [random.normal(size=(48, 20)).astype(np.float32) for _ in range(3)]


def slope(at: Around, a: Any, dim: int) -> Any:
    return (at(a, 1, dim) - at(a, -1, dim)) / 2


def shallow_water(at: Around, h: Any, u: Any, v: Any) -> Any:
    """Fluxes are products of the fields."""
    return (
        h - 0.1 * (slope(at, h * u, 0) + slope(at, h * v, 1)),
        u - 0.1 * (u * slope(at, u, 0) + v * slope(at, u, 1) + slope(at, h, 0)),
        v - 0.1 * (u * slope(at, v, 0) + v * slope(at, v, 1) + slope(at, h, 1)),
    )


def gas(at: Around, h: Any, u: Any, v: Any) -> Any:
    """Pressure is a longer expression of all fields; of what is zero it is no zero."""
    pressure = 0.4 * (jnp.exp(-h) - 0.5 * (u * u + v * v))
    return (
        slope(at, h, 0) + slope(at, h, 1),
        slope(at, u, 0) + slope(at, u * u + pressure, 0) + slope(at, u * v, 1) + slope(at, u, 1),
        slope(at, v, 1) + slope(at, v * v + pressure, 1) + slope(at, v * u, 0) + slope(at, v, 0),
    )


def signs(at: Around, h: Any, u: Any, v: Any) -> Any:
    """What stands beyond the edge is no negative zero."""
    return tuple([1 / at(-2 * a, 1, 0) + 1 / at(a, 1, 0) + at(a * 0.5, 1, 0) for a in (h, u, v)])


def of_two_types(at: Around, h: Any, u: Any, v: Any) -> Any:
    whole = jnp.round(9 * u).astype(jnp.int32)
    return at(h, 1, 0), at(whole, 1, 0), at(whole * whole, 1, 0), at(v * whole, 1, 0)


STEPS = [shallow_water, gas, signs, of_two_types]
LAYOUTS: list[tuple[Mesh, list[Any]]] = [
    (GRID, ["x", "y"]),
    (GRID, BOTH),
    (LINE, ["x", UNSHARDED]),
    (SIX, ["y", "x"]),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
@pytest.mark.parametrize("at", [on_a_torus, between_walls])
@pytest.mark.parametrize("step", STEPS)
def test_fields_step_in_any_layout(step: Step, at: Around, mesh: Mesh, specs: list[Any]) -> None:
    run(partial(step, at), mesh, [specs] * 3, *fields(), error=2e-6, absolute=2e-6)


@pytest.mark.parametrize("at", [on_a_torus, between_walls])
@pytest.mark.parametrize("step", [shallow_water, gas])
def test_products_of_what_is_sent_are_not_sent(step: Step, at: Around) -> None:
    """An edge of 20 of each of the three fields goes to either side, in one message."""
    specs = ["x", UNSHARDED]
    compiled = run(partial(step, at), LINE, [specs] * 3, *fields(), error=2e-6, absolute=2e-6)
    assert sent(compiled) == 2 * 3 * 20 * 4
    assert len(compiled.collectives) == 2


def test_a_message_of_several_fields_says_for_how_many() -> None:
    compiled = run(
        partial(shallow_water, on_a_torus),
        LINE,
        [["x", UNSHARDED]] * 3,
        *fields(),
        error=2e-6,
        absolute=2e-6,
    )
    reasons = {collective.reason for collective in compiled.collectives}
    assert reasons == {"splice needs some elements of other shards (and 3 combined with it)"}
