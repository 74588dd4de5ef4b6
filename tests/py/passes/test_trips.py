"""What trips of loops in blocks count, choose and write, on 8 devices and on one."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.py.passes.on_mesh import LINE, run
from tests.py.passes.test_affine_loops import ROWS, factors, totals_alone, whole


def test_a_count_that_a_loop_from_the_end_carries() -> None:
    """By the number of the trip, and not by the place that it walks to."""

    def counted(a: Any, b: Any) -> Any:
        def step(carry: Any, ab: Any) -> Any:
            h, n = carry
            h = ab[0] * h + ab[1] * n
            return (h, n + 2), (h, n)

        return lax.scan(step, (jnp.zeros_like(b[0]), 3), (a, b), reverse=True)

    assert totals_alone(run(counted, LINE, [ROWS, ROWS], factors(320), whole(320)))


def test_branches_that_all_trips_take() -> None:
    def program(a: Any, b: Any, flag: Any, which: Any) -> Any:
        def step(h: Any, ab: Any) -> Any:
            added = lax.cond(flag, lambda b: 2 * b, lambda b: b - 1, ab[1])
            added = lax.switch(which, [lambda b: b, lambda b: b + 1, lambda b: -b], added)
            h = ab[0] * h + added
            return h, h

        return lax.scan(step, b[0], (a, b))

    for flag, which in [(True, 2), (False, 1), (False, -3), (True, 7)]:
        given = factors(320), whole(320), np.bool_(flag), np.int32(which)
        assert totals_alone(run(program, LINE, [ROWS, ROWS, None, None], *given))


def test_rows_that_are_put_at_places_of_eight_bits() -> None:
    """Which are kept within, as one device does, though they cannot count all rows."""

    def program(b: Any, place: Any) -> Any:
        def step(h: Any, now: Any) -> Any:
            b, place = now
            h = h / 2 + lax.dynamic_update_slice(jnp.zeros(300, b.dtype), b, (place,))
            return h, h[250:]

        return lax.scan(step, jnp.zeros(300, b.dtype), (b, place))

    places = np.random.default_rng(2).integers(0, 256, 320).astype(np.uint8)
    run(program, LINE, [ROWS, ["x"]], whole(320), places)
