"""What never changes in a loop is reduced once: 8 devices against one."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.py.passes.on_mesh import GRID, LINE, numbers, run, sent

BELOW = ["x", None]


def test_sums_of_what_never_changes_are_sent_once() -> None:
    def ranks(a: Any, r: Any) -> Any:
        def step(_: Any, r: Any) -> Any:
            scaled = a / jnp.maximum(a.sum(0), 1)
            return jnp.round(8 * (scaled.T @ r)) % 5

        return lax.fori_loop(0, 9, step, r)

    a, r = numbers((32, 16)), numbers((32,))

    def square(a: Any, r: Any) -> Any:
        return ranks(a[:, :16] @ a[:, :16].T, r)

    compiled = run(square, LINE, [BELOW, ["x"]], a, r)
    assert all(c.trip_count == 1 or max(c.shape) <= 32 for c in compiled.collectives)
    run(square, GRID, [["y", "x"], ["x"]], a, r)


def test_nested_loops_and_branches() -> None:
    def program(a: Any, b: Any, x: Any) -> Any:
        def outer(i: Any, x: Any) -> Any:
            def inner(x: Any, row: Any) -> tuple[Any, Any]:
                x = x + jnp.sum(b, 0) + row * jnp.max(a * 2 + b)
                return x % 7, jnp.sum(x)

            x, sums = lax.scan(inner, x, a)
            return lax.cond(i > 1, lambda x: x + jnp.sum(a) % 3, lambda x: x, x) + sums[0] % 2

        return lax.fori_loop(0, 3, outer, x)

    a, b, x = numbers((16, 8)), numbers((16, 8)), numbers((8,))
    rows: Any = [BELOW, BELOW, [None]]
    columns: Any = [[None, "x"], [None, "x"], ["x"]]
    for specs in (rows, columns):
        run(program, LINE, specs, a, b, x)
    run(program, GRID, [["y", "x"], ["x", "y"], ["y"]], a, b, x)


def test_what_changes_or_is_no_smaller_stays() -> None:
    def program(a: Any, x: Any) -> Any:
        def step(x: Any, t: Any) -> tuple[Any, Any]:
            noise = jax.random.uniform(jax.random.key(3), (4,)).sum() * 0
            x = jnp.outer(x, jnp.sum(a, 1))[:, 0] % 5 + t + noise
            return x, jnp.sum(a * t)

        return lax.scan(step, x, jnp.arange(5.0))

    compiled = run(program, LINE, [BELOW, [None]], numbers((16, 8)), numbers((8,)))
    assert sent(compiled) < 16 * 8 * 4 * 5

    def never(a: Any, x: Any) -> Any:
        return lax.while_loop(lambda x: x[0] > 1e6, lambda x: x / jnp.sum(a * 0), x)

    run(never, LINE, [BELOW, [None]], numbers((16, 8)), numbers((8,)))
