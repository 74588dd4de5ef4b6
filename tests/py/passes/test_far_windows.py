"""Windows that reach further than the next shard, on 8 devices and on 6 against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import kinds, numbers, run, sent
from tests.py.uneven.on_meshes import LINE, TILED, check

Form = Callable[[Any], Any]


def convolved(x: Any, width: int, padding: Any, stride: int = 1, apart: int = 1) -> Any:
    """Along dimension 0 with the weights 1, 2, 0, 1, 2, ..."""
    weights = jnp.arange(1, width + 1, dtype=x.dtype) % 3
    numbers_ = ("WNC", "WIO", "WNC")
    return lax.conv_general_dilated(
        x[..., None], weights[:, None, None], (stride,), padding, None, (apart,), numbers_
    )[..., 0]


FORMS: list[Form] = [
    lambda x: convolved(x, 11, "VALID"),
    lambda x: convolved(convolved(x, 7, "VALID"), 7, "VALID"),
    lambda x: convolved(x, 9, "SAME"),
    lambda x: convolved(x, 8, [(7, 0)], stride=2),
    lambda x: convolved(x, 4, [(2, 6)], apart=3),
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (9, 3), (1, 1), "SAME"),
    lambda x: lax.reduce_window(x, 0.0, lax.add, (10, 1), (2, 1), [(1, 5), (0, 0)]),
]


def all_forms(x: Any) -> Any:
    return [form(x) for form in FORMS]


@jax.grad
def gradients(x: Any) -> Any:
    return sum(jnp.sum(form(x) ** 2 % 5) for form in FORMS[:5])


# Each mesh with two of three numbers of rows.
ROWS = [(*layout, (24, 21, 37)[(k + n) % 3]) for k, layout in enumerate(TILED) for n in range(2)]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs", "rows"), ROWS)
def test_windows_reach_over_several_shards(mesh: Mesh, specs: list[Any], rows: int) -> None:
    x, layout = numbers((rows, 12)), Layout(specs, mesh)
    check(all_forms, x, mesh=mesh, in_layouts=(layout,))
    check(gradients, x, mesh=mesh, in_layouts=(layout,), out_layouts=layout)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.bfloat16])
def test_windows_of_any_type_reach_over_several_shards(dtype: Any) -> None:
    for mesh, specs in TILED:
        run(lambda x: [form(x) for form in FORMS[:5]], mesh, [specs], numbers((24, 6), dtype))


def test_far_windows_send_the_rows_that_they_read() -> None:
    """Shards of 4 rows: 5 rows come from two shards on each side; of VALID windows 6, and 6."""
    x, rows = numbers((32, 6)), 6 * 4
    compiled = run(lambda x: convolved(x, 11, "SAME"), LINE, [["x", UNSHARDED]], x)
    assert sent(compiled) == 2 * 5 * rows
    assert kinds(compiled) == {"shard_permute"}
    compiled = run(lambda x: jnp.sum(FORMS[1](x) % 5), LINE, [["x", UNSHARDED]], x)
    assert sent(compiled) == 2 * 6 * rows + 2 * 7 / 8 * 4
