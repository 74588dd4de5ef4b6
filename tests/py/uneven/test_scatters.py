"""Scatters that no device can do a part of, by updates of a number that meshes do not divide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.uneven.on_meshes import GRID, LINE, SIX, check

RANDOM = np.random.default_rng(5)
X = jnp.asarray(RANDOM.normal(size=(50, 6)), jnp.float32)
PLACES = RANDOM.permutation(50)[:45].astype(np.int32)
ROWS = RANDOM.normal(size=(45, 6)).astype(np.float32)
WINDOWS = lax.ScatterDimensionNumbers((1, 2), (), (0,))
ELEMENTS = lax.ScatterDimensionNumbers((1,), (0,), (0,))


def kept(rows: Any, places: Any) -> Any:
    """As `jnp.compress`: what is chosen goes to the front, the rest nowhere."""
    is_kept = rows[:, 0] > 0
    to = jnp.where(is_kept, jnp.cumsum(is_kept) - 1, len(rows))
    return jnp.zeros_like(rows).at[to].set(rows, mode="drop")


def windows(rows: Any, places: Any) -> Any:
    """Windows of two rows, of which one lies across the end, and is left out."""
    pairs = jnp.stack([rows, -rows], 1)
    return lax.scatter(jnp.concatenate([X, X]), 2 * places[:, None] + 1, pairs, WINDOWS)


def other_body(rows: Any, places: Any) -> Any:
    """The old element decides: XLA has no name for that."""
    shape = (len(places), X.shape[1])
    return lax.scatter_apply(X, places[:, None], jnp.sin, ELEMENTS, update_shape=shape)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda rows, places: X.at[places].set(rows),
    "elements": lambda rows, places: X.at[places, places % 6].set(rows[:, 0]),
    "short indices": lambda rows, places: X.at[places.astype(jnp.uint8)].set(
        rows, mode="promise_in_bounds"
    ),
    "compaction": kept,
    "windows": windows,
    "another body": other_body,
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("mesh", "axes"), [(LINE, "x"), (GRID, ("x", "y")), (SIX, ("y", "x"))])
def test_what_is_beyond_the_end_updates_nothing(name: str, mesh: Mesh, axes: Any) -> None:
    layouts = Layout([axes, UNSHARDED], mesh), Layout([axes], mesh)
    compiled = check(PROGRAMS[name], ROWS, PLACES, mesh=mesh, in_layouts=layouts)
    assert "fallback" not in [record["kind"] for record in compiled.ledger["records"]]
