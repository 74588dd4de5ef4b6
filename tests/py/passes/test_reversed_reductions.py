"""Reductions of what was reversed, on 8 devices against one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.py.passes.on_mesh import GRID, LINE, kinds, numbers, run

N = 8 * 37
SPLIT = ["x"]


def marked(*places: int) -> Any:
    """Where these places are true."""
    found = np.zeros(N, bool)
    found[list(places)] = True
    return found


@pytest.mark.parametrize("places", [(), (5,), (5, 40, 200), (0, N - 1), tuple(range(N))])
def test_the_last_place_of_those_that_are_true(places: tuple[int, ...]) -> None:
    compiled = run(lambda m: N - 1 - jnp.argmax(m[::-1]), LINE, [SPLIT], marked(*places))
    assert kinds(compiled) == {"all_reduce"}
    assert compiled.wire_bytes < 16


SPECIAL = [(), (np.nan,), (np.nan, np.nan, -np.nan), (np.inf, -np.inf), (0.0, -0.0)]


def with_special(special: tuple[float, ...], dtype: Any) -> Any:
    x = np.round(3 * np.random.default_rng(len(special)).standard_normal((N, 5))) / 4
    x[[3 + 61 * k for k in range(len(special))]] = np.array(special)[:, None]
    return jnp.asarray(x, dtype)


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_last_of_the_largest_and_the_smallest(special: tuple[float, ...], dtype: Any) -> None:
    x = with_special(special, dtype)

    def program(x: Any) -> Any:
        turned = jnp.flip(x, 0)
        return jnp.argmax(turned, 0), jnp.argmin(jnp.abs(turned), 0), jnp.max(-turned, 0)

    compiled = run(program, LINE, [["x", None]], x)
    assert kinds(compiled) == {"all_reduce"}
    assert compiled.wire_bytes < N * 5
    run(program, GRID, [[None, ("y", "x")]], x.T.reshape(N, 5))


def test_integers_and_other_dimensions() -> None:
    x = np.random.default_rng(1).integers(-4, 4, (6, N, 3)).astype(np.int32)

    def program(x: Any) -> Any:
        turned = x[:, ::-1]
        return (
            turned.max((1, 2)),
            jnp.argmax(turned, 1),
            jnp.argmin(x[::-1, ::-1], 1),
            turned.sum(1),
        )

    compiled = run(program, LINE, [[None, "x", None]], x)
    assert kinds(compiled) <= {"all_reduce", "shard_permute"}
    run(program, GRID, [["y", "x", None]], x[:4])


def test_part_of_what_is_reversed_is_reduced() -> None:
    run(lambda x: jnp.max(jnp.flip(x, (0, 1)), 0), LINE, [["x", None]], numbers((N, 4)))
    run(jax.grad(lambda x: jnp.max(x[::-1])), LINE, [SPLIT], numbers((N,)), out=SPLIT)


def test_windows_over_one_number_are_reversed() -> None:
    def program(x: Any) -> Any:
        twos = jnp.full_like(x, 2)
        sums = jax.lax.reduce_window(twos, 0.0, jax.lax.add, (4, 1), (1, 1), ((3, 0), (0, 0)))
        return x + jnp.flip(sums, 0)

    assert not run(program, LINE, [["x", None]], numbers((N, 3))).wire_bytes
