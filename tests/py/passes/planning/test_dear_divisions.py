"""Where dividing an operation costs more than it saves, it is not divided."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import dtensor

MESH = dtensor.Mesh.abstract([("x", 2), ("y", 4)])


def lowered(function: Any, *args: Any, in_layouts: Any, out_layouts: Any = None) -> Any:
    step = dtensor.jit(function, mesh=MESH, in_layouts=in_layouts, out_layouts=out_layouts)
    return step.lower(*args)


def test_an_update_is_scaled_by_all_rather_than_its_table_gathered() -> None:
    def update(table: Any, ids: Any, rows: Any) -> Any:
        return table.at[ids].add(0.5 * rows)

    table, rows = jnp.zeros((65_536, 96)), jnp.zeros((2048, 96))
    ids = jnp.zeros((2048,), jnp.int32)
    plan = lowered(
        update, table, ids, rows, in_layouts=[P("y"), P("x"), P("x")], out_layouts=P("y")
    )
    assert {c.kind for c in plan.collectives} == {"all_gather"}
    assert plan.wire_bytes == (rows.nbytes + ids.nbytes) / 2  # a table has 12.6 MB per shard


def test_masks_of_groups_are_made_by_all_rather_than_their_weights_gathered() -> None:
    """XLA makes a mask, and what it leaves of the rows, in one loop: that takes no longer."""

    def loss(weights: Any, x: Any) -> Any:
        router, up, gate, down = weights
        worth, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), 2)
        order, sizes = jnp.argsort(chosen.reshape(-1)), jnp.bincount(chosen.reshape(-1), length=8)
        rows = x[order // 2]
        inner = jax.nn.silu(jax.lax.ragged_dot(rows, up, sizes))
        made = jax.lax.ragged_dot(inner * jax.lax.ragged_dot(rows, gate, sizes), down, sizes)
        each = jnp.zeros_like(made).at[order].set(made).reshape(*worth.shape, -1)
        return ((each * worth[..., None]).sum(1) ** 2).mean()

    router, up, down = jnp.zeros((64, 8)), jnp.zeros((8, 64, 128)), jnp.zeros((8, 128, 64))
    x, columns = jnp.zeros((512, 64)), P(None, None, ("x", "y"))
    specs = P(), columns, columns, P(None, ("x", "y"))
    plan = lowered(
        jax.grad(loss),
        (router, up, up, down),
        x,
        in_layouts=(specs, P(("x", "y"))),
        out_layouts=specs,
    )
    assert plan.wire_bytes < 3 * up.nbytes  # where the weights are gathered, 3.3


@pytest.mark.parametrize("spec", [P("y"), P(("x", "y"))])
def test_a_small_scan_starts_one_collective(spec: P) -> None:
    a = jax.ShapeDtypeStruct((8, 9), np.int8)  # to start another takes longer than to send it whole
    plan = lowered(lambda a: jnp.cumsum(a, 0, dtype=jnp.int8), a, in_layouts=[spec])
    assert len(plan.collectives) == 1


def test_what_a_window_as_wide_as_two_shards_reads_moves_to_another_dimension() -> None:
    def widest(a: Any) -> Any:
        window = (1, 1, 1025), (1, 1, 1), "SAME"
        return jax.lax.reduce_window(a, -jnp.inf, jax.lax.max, *window)

    a = jax.ShapeDtypeStruct((2, 16, 4096), jnp.float32)
    plan = lowered(widest, a, in_layouts=[P(None, None, ("x", "y"))])
    assert {c.kind for c in plan.collectives} == {"all_to_all"}
