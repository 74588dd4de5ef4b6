"""Dimensions that become longer than their layouts ask for, so that more devices divide them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.compiler.options import CompileOptions, EffortName
from dtensor.compiler.relayout import relayout
from dtensor.compiler.stages import Compiled
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.planning.plan import make_plan
from dtensor.runtime.client import create_mesh
from tests.py.uneven.on_meshes import FIVE, GRID, check, sent

CUBE = create_mesh([("x", 2), ("y", 2), ("z", 2)])
RANDOM = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


def mixed(x: Any) -> Any:
    """Rounds that need dimension 1 whole, and keep rows apart."""
    for _ in range(5):
        x = jnp.tanh(jnp.einsum("bts,bsd->btd", jax.nn.softmax(x @ x.swapaxes(1, 2)), x))
    return x


def kept(compiled: Compiled) -> list[str]:
    return [r["text"] for r in compiled.ledger["records"] if r["kind"] == "length"]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "specs", "size"),
    [
        (GRID, ["x", "y", None], 13),
        (GRID, ["x", "y", None], 29),
        (CUBE, ["x", ("y", "z"), None], 13),
        (CUBE, ["z", ("x", "y"), None], 29),
    ],
)
def test_rows_take_the_axes_of_another_dimension(mesh: Mesh, specs: list[Any], size: int) -> None:
    """As the next size that all devices divide does; but for what is moved at the border."""
    layouts = (Layout(specs, mesh),)

    def compiled(rows: int) -> Compiled:
        values = normal(rows, 24, 6)
        found = check(
            mixed,
            values,
            mesh=mesh,
            in_layouts=layouts,
            out_layouts=layouts[0],
            error=1e-4,
            absolute=1e-6,
        )
        assert found.out_layouts == layouts[0]
        return found

    uneven, even = compiled(size), compiled(-(-size // 8) * 8)
    assert kept(uneven)
    assert not kept(even)
    assert sent(uneven) <= 1.5 * sent(even)


def test_merged_rows_take_the_axes_of_another_dimension() -> None:
    def rows(x: Any, w: Any) -> Any:
        return jnp.tanh(mixed(x).reshape(-1, 6) @ w).reshape(x.shape)

    layouts = (Layout(["x", "y", None], GRID), Layout.replicated(GRID, 2))
    compiled = check(
        rows, normal(13, 24, 6), normal(6, 6), in_layouts=layouts, error=1e-4, absolute=1e-6
    )
    assert kept(compiled)


def test_a_constraint_and_a_result_of_other_lengths() -> None:
    def f(x: Any) -> Any:
        return relayout(mixed(x), Layout([None, "x", None], GRID))[:11].sum(2)

    layouts, x = (Layout(["x", "y", None], GRID),), normal(13, 24, 6)
    check(f, x, in_layouts=layouts, error=1e-4, absolute=1e-5)
    assert kept(jit(f, mesh=GRID, in_layouts=layouts).lower(x).compile())


def attention(x: Any, w: Any) -> Any:
    """Of heads side by side, and the gradient by the weights."""

    def loss(w: Any) -> Any:
        heads = [t.reshape(*x.shape[:2], 4, 4) for t in jnp.split(x @ w, 3, -1)]
        seen = jax.nn.dot_product_attention(heads[0], heads[1], heads[2]).reshape(x.shape)
        return jnp.mean((x + seen)[:, 0] ** 2), seen.max(axis=(0, 2))

    return jax.value_and_grad(loss, has_aux=True)(w)


def test_axes_go_to_a_dimension_that_no_layout_splits() -> None:
    """Of 97 tokens on 5 devices to a batch of 10: of 8 elements it would be whole on all."""
    w = 0.3 * normal(16, 48)

    def compiled(batch: int) -> Compiled:
        layouts = (Layout([None, "x", None], FIVE), Layout.replicated(FIVE, 2))
        values = normal(batch, 97, 16), w
        return check(attention, *values, mesh=FIVE, in_layouts=layouts, error=1e-4, absolute=1e-5)

    uneven, even = compiled(8), compiled(10)
    assert kept(uneven)
    assert not kept(even)
    assert sent(uneven) <= 1.3 * sent(even)


def test_lengths_stay_where_that_saves_nothing() -> None:
    layout = Layout(["x", None], GRID)
    compiled = check(jnp.tanh, normal(13, 6), in_layouts=(layout,), error=1e-6)
    assert not kept(compiled)
    assert not sent(compiled)


def test_what_was_planned_to_choose_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = list[Any]()

    def counted(*args: Any) -> Any:
        plans.append(make_plan(*args))
        return plans[-1]

    monkeypatch.setattr("dtensor.passes.propagation.propagate.make_plan", counted)
    layouts = (Layout(["x", "y", None], GRID),)
    efforts: list[tuple[EffortName, int]] = [("normal", 2), ("fast", 1)]
    for effort, count in efforts:
        plans.clear()
        options = CompileOptions(effort=effort)
        jit(mixed, mesh=GRID, in_layouts=layouts, options=options).lower(
            normal(13, 24, 6)
        ).compile()
        assert len(plans) == count
