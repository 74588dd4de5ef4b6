"""Windows little out of proportion to what they walk over: transposed and full convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import numbers, run, sent
from tests.py.uneven.on_meshes import LINE, SIX, TILED, check

Form = Callable[[Any], Any]


def weights(size: int, dtype: Any) -> Any:
    return jnp.arange(1, size * size + 1, dtype=dtype).reshape(size, size, 1, 1) % 3


def transposed(size: int, stride: int) -> Form:
    def form(x: Any) -> Any:
        numbers_ = ("NHWC", "HWIO", "NHWC")
        kernel, steps = weights(size, x.dtype), (stride, stride)
        return lax.conv_transpose(
            x[None, ..., None], kernel, steps, "VALID", dimension_numbers=numbers_
        )[0, ..., 0]

    return form


def convolved(size: int, stride: int, around: int) -> Form:
    def form(x: Any) -> Any:
        numbers_ = ("NHWC", "HWIO", "NHWC")
        padding = [(around, around)] * 2
        kernel, steps = weights(size, x.dtype), (stride, stride)
        return lax.conv_general_dilated(
            x[None, ..., None], kernel, steps, padding, dimension_numbers=numbers_
        )[0, ..., 0]

    return form


FORMS: list[Form] = [
    transposed(4, 2),
    transposed(5, 3),
    lambda x: convolved(3, 1, 0)(transposed(3, 2)(x) % 4),
    convolved(3, 1, 2),
    lambda x: convolved(3, 1, 0)(convolved(3, 1, 2)(x) % 4),
    convolved(4, 2, 0),
    lambda x: transposed(4, 2)(convolved(4, 2, 0)(x) % 4),
    lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 1), (1, 1), [(2, 2), (0, 0)]),
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (4, 4), (2, 2), "VALID"),
]


# One number that no axis divides on each mesh, and one of the others in turn; results free in turn.
ROWS = [
    (*layout, rows, (k + n) % 2 == 0)
    for k, layout in enumerate(TILED)
    for n, rows in enumerate((37, (32, 30)[k % 2]))
]


def all_forms(x: Any) -> Any:
    return [form(x) for form in FORMS]


@jax.grad
def gradients(x: Any) -> Any:
    return sum(jnp.sum(form(x) * (form(x) % 3)) for form in FORMS)


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs", "rows", "is_free"), ROWS)
def test_windows_that_are_more_or_fewer(
    mesh: Mesh, specs: list[Any], rows: int, is_free: bool
) -> None:
    x, layout = numbers((rows, 28)), Layout(specs, mesh)
    out = None if is_free else layout
    check(all_forms, x, mesh=mesh, in_layouts=(layout,), out_layouts=out)
    if not is_free:  # of so many forms at once a better plan takes long
        given: dict[str, Any] = {"in_layouts": (layout,), "out_layouts": layout}
        check(gradients, x, mesh=mesh, effort="fast", **given)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.bfloat16])
def test_windows_of_any_type_that_are_more_or_fewer(dtype: Any) -> None:
    for mesh, specs in TILED[::2]:
        x, layout = numbers((34, 22), dtype), Layout(specs, mesh)
        check(lambda x: [form(x) for form in FORMS[:7]], x, mesh=mesh, in_layouts=(layout,))


def test_windows_over_two_arrays_that_are_given_otherwise() -> None:
    def pooled(x: Any, y: Any) -> Any:
        def body(a: Any, b: Any) -> Any:
            return a[0] + b[0], lax.max(a[1], b[1])

        starts = (np.float32(0), -np.float32(np.inf))
        return lax.reduce_window(
            (x, y), starts, body, (1, 2), (1, 3), [(0, 0), (2, 1)], base_dilation=(1, 2)
        )

    x, y = numbers((4, 8)), numbers((4, 8))
    columns, whole = Layout([UNSHARDED, "y"], SIX), Layout([UNSHARDED, UNSHARDED], SIX)
    outs = None, Layout([UNSHARDED, "x"], SIX)
    check(pooled, x, y, mesh=SIX, in_layouts=(columns, whole), out_layouts=outs)


@pytest.mark.parametrize(
    ("form", "rows", "most"),
    [
        (transposed(4, 2), 128, 5),  # shards of 16 rows and of 33 results, which begin 16 or 17 on
        (convolved(3, 1, 2), 128, 8),
        (convolved(4, 2, 0), 290, 8),  # shards of 37 rows and of 18 results, of 36
    ],
)
def test_shards_send_rows_of_windows_that_are_more(form: Form, rows: int, most: int) -> None:
    x, specs = numbers((rows, 12)), ["x", UNSHARDED]
    compiled = run(lambda x: jnp.sum(form(x) % 5), LINE, [specs], x)
    assert sent(compiled) <= most * 12 * 4 + 2 * 7 / 8 * 4


def test_gradients_of_windows_that_are_more_send_a_few_rows() -> None:
    x, specs = numbers((512, 12)), ["x", UNSHARDED]
    gradient = jax.grad(lambda x: jnp.sum(transposed(4, 2)(x) ** 2 % 5))
    compiled = run(gradient, LINE, [specs], x, out=specs)
    assert sent(compiled) <= (5 + 8 * 26 / 12) * 12 * 4


def test_a_full_convolution_of_numbers_sends_a_few() -> None:
    def form(x: Any) -> Any:
        return jnp.max(jnp.convolve(x, jnp.arange(3.0)))

    assert sent(run(form, LINE, [["x"]], numbers((128,)))) == (7 + 1) * 4 + 2 * 7 / 8 * 4
