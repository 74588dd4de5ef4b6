"""Rows that were converted from a narrower type, or will be, are sent in that type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.api import jit
from dtensor.dialect.layout import Layout
from tests.py.passes.on_mesh import GRID, LINE, SLOW, run, sent
from tests.py.uneven.on_meshes import SIX, TILED, check

ROWS = ["x", None]
KERNEL = np.arange(15, dtype=np.float32).reshape(5, 3)

Form = Callable[[Any], Any]


def image(*shape: int, dtype: Any = np.uint8) -> Any:
    """Elements of both signs, where the type has them, and as large as eight bits can be."""
    values = np.random.default_rng(0).integers(0, 250, shape)
    if dtype == np.bool_:
        return values % 3 == 0
    return jnp.asarray(values if dtype == np.uint8 else values - 125).astype(dtype)


def wide(x: Any) -> Any:
    return x.astype(jnp.float32)


def filtered(x: Any) -> Any:
    rows = wide(x)[None, None]
    return lax.conv(rows, jnp.asarray(KERNEL)[None, None], (1, 1), "SAME")[0, 0]


def wrapped(x: Any) -> Any:
    rows = jnp.pad(wide(x), ((2, 2), (1, 1)), mode="wrap")[None, None]
    return lax.conv(rows, jnp.asarray(KERNEL)[None, None], (1, 1), "VALID")[0, 0]


def boxes(x: Any) -> Any:
    return lax.reduce_window(x.astype(jnp.int32), 0, lax.add, (5, 3), (1, 1), "SAME")


def largest(x: Any) -> Any:
    return lax.reduce_window(wide(x), -jnp.inf, lax.max, (5, 3), (1, 1), "SAME")


def rolled(x: Any) -> Any:
    rows = wide(x)
    return rows - jnp.roll(rows, 4, 0)


def padded(x: Any) -> Any:
    rows = jnp.pad(wide(x), ((2, 2), (0, 0)), constant_values=1)
    return rows[4:] - rows[:-4]


def turned_first(x: Any) -> Any:
    rows = wide(x.T).reshape(x.shape[1], x.shape[0], 1)
    return rows - jnp.roll(rows, 4, 1)


def reversed_rows(x: Any) -> Any:
    return wide(x)[::-1]


def differences(x: Any) -> Any:
    return jnp.diff(wide(x), n=2, axis=0)


FORMS = [filtered, wrapped, boxes, largest, rolled, padded, turned_first]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.int8, jnp.bfloat16, jnp.float16])
def test_four_rows_are_sent_as_they_were(form: Form, dtype: Any) -> None:
    x = image(64, 12, dtype=dtype)
    assert sent(run(form, LINE, [ROWS], x)) == 4 * 12 * x.itemsize


def test_whole_shards_are_sent_as_they_were() -> None:
    x = image(64, 12)
    assert sent(run(reversed_rows, LINE, [ROWS], x, out=ROWS)) == x.nbytes / 8


def test_what_was_compared_is_sent_as_truth() -> None:
    def form(x: Any) -> Any:
        return filtered((x > 100) & (x < 200))

    assert sent(run(form, LINE, [ROWS], image(64, 12, dtype=np.float32))) == 4 * 12


def test_of_two_conversions_the_narrowest_counts() -> None:
    """Rounded to bfloat16, and computed in float32: what is rounded is sent."""

    def form(x: Any) -> Any:
        return rolled((x / 3).astype(jnp.bfloat16))

    assert sent(run(form, LINE, [ROWS], image(64, 12, dtype=np.float32))) == 4 * 12 * 2


def test_what_becomes_narrower_is_converted_first() -> None:
    def form(x: Any) -> Any:
        rows = jnp.pad(x * 2, ((2, 2), (0, 0)))
        return rows[4:].astype(jnp.bfloat16), jnp.roll(x * 2, 2, 0).astype(jnp.bfloat16)

    assert sent(run(form, LINE, [ROWS], image(64, 12, dtype=np.float32))) == 2 * 2 * 12 * 2


def test_what_is_read_in_both_types_moves_once() -> None:
    def form(x: Any) -> Any:
        rows = jnp.roll(x * 2, 4, 0)
        return rows.astype(jnp.bfloat16), rows

    assert sent(run(form, LINE, [ROWS], image(64, 12, dtype=np.float32))) == 4 * 12 * 4


@pytest.mark.parametrize("fill", [0.5, -1.0, 300.0, np.nan, -np.inf, -0.0])
def test_what_the_type_has_not_is_put_around_the_wider(fill: float) -> None:
    """The signs of zeros are told apart."""

    def form(x: Any) -> Any:
        rows = jnp.pad(wide(x), ((2, 2), (0, 0)), constant_values=fill)[4:]
        return rows, jnp.signbit(rows)

    assert sent(run(form, LINE, [ROWS], image(64, 12))) == 2 * 12 * 4


def test_nan_and_infinity_go_along() -> None:
    x = np.array(image(64, 12, dtype=np.float32))
    x[7], x[8], x[15, :4], x[16], x[0], x[63] = np.nan, np.inf, -np.inf, -0.0, np.nan, -0.0
    for form in (rolled, padded, largest, lambda x: jnp.signbit(jnp.roll(wide(x), 4, 0))):
        run(form, LINE, [ROWS], jnp.asarray(x).astype(jnp.bfloat16))


@pytest.mark.parametrize("form", [*FORMS, reversed_rows, differences])
@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, jnp.bfloat16])
@pytest.mark.parametrize("size", [(61, 12), (15, 7), (1, 3), (0, 4)])
def test_any_size(form: Form, dtype: Any, size: tuple[int, int]) -> None:
    if size[0] < 4 and form in (wrapped, differences):
        return  # it has no rows
    check(form, image(*size, dtype=dtype), mesh=LINE, in_layouts=(Layout(ROWS, LINE),))


@pytest.mark.sweep
@pytest.mark.parametrize("form", [*FORMS, differences])
@pytest.mark.parametrize(("mesh", "specs"), TILED)
@pytest.mark.parametrize("size", [(48, 24), (47, 23)])
def test_any_mesh(form: Form, mesh: Any, specs: list[Any], size: tuple[int, int]) -> None:
    check(form, image(*size), mesh=mesh, in_layouts=(Layout(specs, mesh),))


@pytest.mark.parametrize(
    "form",
    [filtered, boxes, lambda x: filtered(x)[::2], lambda x: jnp.cos(filtered(x))],
)
def test_rows_that_are_no_number_of_shards_are_sent_as_they_were(form: Form) -> None:
    x = image(61, 12)
    assert sent(run(form, LINE, [ROWS], x, error=1e-6, absolute=1e-2)) <= 4 * 12 * x.itemsize


def test_gradients_of_a_kernel() -> None:
    x, kernel = image(48, 16), jnp.asarray(KERNEL)

    def loss(kernel: Any, x: Any) -> Any:
        rows = lax.conv(wide(x)[None, None], kernel[None, None], (1, 1), "SAME")
        return jnp.sum(jnp.sin(rows / 1e4))

    run(jax.grad(loss), GRID, [None, ["x", "y"]], kernel, x, error=1e-3, absolute=1e-3)


def test_in_a_loop_and_of_a_batch() -> None:
    """A game of life: neighbours are counted in float32."""

    def step(x: Any) -> Any:
        around = jnp.pad(wide(x), 1, mode="wrap")[None, None]
        count = lax.conv(around, jnp.ones((1, 1, 3, 3)), (1, 1), "VALID")[0, 0]
        return (count == 3) | (x & (count == 4))

    def game(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, y: step(y), x)

    x = image(16, 24, dtype=np.bool_)
    tiles = ["x", "y"]
    assert sent(run(game, GRID, [tiles], x, out=tiles)) == 3 * 2 * (6 + 10)
    run(jax.vmap(game), GRID, [[None, *tiles]], jnp.stack([x, ~x]))
    check(game, image(15, 22, dtype=np.bool_), mesh=SIX, in_layouts=(Layout(tiles, SIX),))


@pytest.mark.parametrize("form", [filtered, boxes, rolled, padded, reversed_rows])
@pytest.mark.parametrize("dtype", [np.uint8, jnp.bfloat16, np.float32])
def test_the_plan_counts_what_is_sent(form: Form, dtype: Any) -> None:
    x = image(64, 12, dtype=dtype)
    layout = Layout(ROWS, LINE)
    lowered = jit(form, mesh=LINE, in_layouts=(layout,), out_layouts=layout, options=SLOW).lower(x)
    (plan,) = [r for r in lowered.ledger["records"] if r["kind"] == "plan"]
    assert plan["communication"] * 1e9 == pytest.approx(lowered.wire_bytes, rel=1e-2)
