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
