"""Windows over values with elements of their own around them: 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from tests.py.passes.on_mesh import GRID, LINE, run, sent

Form = Callable[[Any, Any], Any]
RANDOM = np.random.default_rng(0)
X = RANDOM.integers(-3, 4, (2, 64, 24, 3)).astype(np.float32)
KERNEL = RANDOM.integers(-2, 3, (3, 5, 3, 2)).astype(np.float32)
NUMBERS = ("NHWC", "HWIO", "NHWC")
MODES = ("wrap", "reflect", "edge", "symmetric")
ROW = X[:, :1].nbytes


def surrounded(x: Any, mode: str, high: int = 1) -> Any:
    return jnp.pad(x, ((0, 0), (1, high), (2, 2), (0, 0)), mode=mode)


def convolution(mode: str, stride: int = 1, steps: int = 1) -> Form:
    return lambda x, k: lax.conv_general_dilated(
        surrounded(x, mode, 2 * steps - 1),
        k,
        (stride, stride),
        "VALID",
        rhs_dilation=(steps, 1),
        dimension_numbers=NUMBERS,
    )


def channels(x: Any, k: Any) -> Any:
    return lax.conv_general_dilated(
        surrounded(x, "wrap"),
        k[:, :, :1, :1].repeat(3, axis=3),
        (1, 1),
        "VALID",
        feature_group_count=3,
        dimension_numbers=NUMBERS,
    )


def ahead(x: Any, k: Any) -> Any:
    """Not as many results as `x` has rows."""
    padded = surrounded(x, "wrap", high=0)
    return lax.conv_general_dilated(padded, k, (1, 1), "VALID", dimension_numbers=NUMBERS)


def pool(start: float, kind: Callable[..., Any]) -> Form:
    return lambda x, _: lax.reduce_window(
        surrounded(x, "reflect"), start, kind, (1, 3, 5, 1), (1, 1, 1, 1), "VALID"
    )


def stencil(mode: str) -> Form:
    def form(x: Any, _: Any) -> Any:
        p = jnp.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)), mode=mode)
        return (p[:, 2:] - 2 * p[:, 1:-1] + 3 * p[:, :-2]) ** 2

    return form


def gradient(form: Form) -> Form:
    return jax.grad(lambda x, k: jnp.sum(form(x, k) * jnp.arange(24)[:, None] % 5), (0, 1))


FORMS: dict[str, Form] = {
    **{mode: convolution(mode) for mode in MODES},
    **{f"gradients, {mode}": gradient(convolution(mode)) for mode in MODES},
    "strides": convolution("wrap", stride=2),
    "windows with gaps": convolution("wrap", steps=2),
    "gradients of windows with gaps": gradient(convolution("wrap", steps=2)),
    "of rows in front alone": ahead,
    "channels apart": channels,
    "gradients of channels apart": gradient(channels),
    "sums": pool(0.0, lax.add),
    "gradients of sums": gradient(pool(0.0, lax.add)),
    "largest": pool(-np.inf, lax.max),
    **{f"gradients of a stencil, {mode}": gradient(stencil(mode)) for mode in ("wrap", "edge")},
    "of what is computed": lambda x, k: convolution("symmetric")(2 * x + 1, k),
    "computed in between": lambda x, k: lax.conv_general_dilated(
        jnp.abs(surrounded(x, "edge")), k, (1, 1), "VALID", dimension_numbers=NUMBERS
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", FORMS)
def test_what_stands_around_costs_a_few_rows(name: str) -> None:
    rows = [UNSHARDED, "x", UNSHARDED, UNSHARDED]
    compiled = run(FORMS[name], LINE, [rows, [UNSHARDED] * 4], X, KERNEL)
    assert sent(compiled) <= 8 * ROW, sent(compiled) / ROW


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "is_whole"), [(name, k % 2 == 1) for k, name in enumerate(FORMS)])
def test_both_dimensions_split(name: str, is_whole: bool) -> None:
    """What comes of every second one is put together."""
    tiles, whole = [UNSHARDED, "y", "x", UNSHARDED], [UNSHARDED] * 4
    run(FORMS[name], GRID, [tiles, whole], X, KERNEL, out=whole if is_whole else None)


@pytest.mark.sweep
@pytest.mark.parametrize("specs", [["x", "y"], ["y", UNSHARDED], [("x", "y"), UNSHARDED]])
def test_ends_go_round_to_other_shards(specs: list[Any]) -> None:
    layout = [UNSHARDED, *specs, UNSHARDED]
    run(gradient(ahead), GRID, [layout, None], np.tile(X, (1, 4, 1, 1)), KERNEL, out=None)


def test_what_is_turned_and_back() -> None:
    def turned(x: Any, k: Any) -> Any:
        padded = surrounded(x[:, ::-1], "reflect")[:, ::-1]
        return lax.conv_general_dilated(padded, k, (1, 1), "VALID", dimension_numbers=NUMBERS)

    run(turned, LINE, [[UNSHARDED, "x", UNSHARDED, UNSHARDED], None], X, KERNEL)


def squares(x: Any, y: Any) -> Any:
    return jnp.pad(x, ((3, 3), (0, 0))) ** 2 + y[:38]


@pytest.mark.parametrize(
    "form",
    [
        squares,
        lambda x, y: jnp.flip(squares(x, y), 0),
        lambda x, y: jnp.concatenate([squares(x, y), squares(-x, 2 * y)], 1),
    ],
)
def test_few_rows_of_what_is_computed_of_padded_ones(form: Form) -> None:
    """They are computed of slices, of an argument too; of slices that overlap one is made."""

    def read(x: Any, y: Any) -> Any:
        computed = form(x, y)
        few = computed[:3], computed[1:4], computed[-3:].sum(0), computed[-4:-1].max(0)
        return computed[3:-3], computed[2:-4], few

    x, y = RANDOM.integers(-3, 4, (32, 5)), RANDOM.integers(-3, 4, (40, 5))
    whole = [UNSHARDED, UNSHARDED]
    for specs in (["x", UNSHARDED], whole):
        run(read, LINE, [["x", UNSHARDED], specs], x, y)
