"""jax.Ref among the arguments of `dtensor.jit`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.array import DTensor
from dtensor.runtime.client import create_mesh
from dtensor.runtime.placement import named_sharding

MESH = create_mesh([("x", 2), ("y", 4)])
ROWS = Layout(["x", UNSHARDED], MESH)
GRID = Layout(["x", "y"], MESH)
X = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)


def ref_of(layout: Layout) -> jax.Ref:
    return jax.new_ref(jax.device_put(X, named_sharding(layout)))


def whole(result: Any) -> np.ndarray[Any, Any]:
    return np.asarray(result.to_jax() if isinstance(result, DTensor) else result)


def accumulate(total: jax.Ref, x: jax.Array, *, scale: float = 1.0) -> jax.Array:
    total[...] += scale * x
    total[0] = jnp.zeros(8)
    return x.sum(0)


@pytest.mark.parametrize("layout", [ROWS, GRID], ids=["rows", "grid"])
@pytest.mark.parametrize("returns", ["dtensor", "jax"])
def test_a_program_writes_to_it(layout: Layout, returns: Any) -> None:
    total, expected = ref_of(layout), jax.new_ref(jnp.asarray(X))
    step = jit(accumulate, mesh=MESH, returns=returns, static_argnames="scale")
    for scale in (2.0, 2.0, 3.0):
        result = step(total, X, scale=scale)
        np.testing.assert_array_equal(
            whole(result), accumulate(expected, jnp.asarray(X), scale=scale)
        )
        np.testing.assert_array_equal(total[...], expected[...])
        assert isinstance(result, DTensor) == (returns == "dtensor")
    assert total.sharding.is_equivalent_to(named_sharding(layout), 2)


def test_layouts_are_given_for_what_it_holds() -> None:
    total = ref_of(GRID)
    in_layouts = {"state": {"total": ROWS, "count": None}, "x": ROWS}

    def step(state: dict[str, Any], x: jax.Array) -> jax.Array:
        state["total"][...] *= x
        state["count"][...] += 1
        result: jax.Array = state["total"][...].T
        return result

    count = jax.new_ref(jnp.zeros((), jnp.int32))
    by_columns = Layout([UNSHARDED, "y"], MESH)
    run = jit(step, in_layouts=in_layouts, out_layouts=by_columns)
    for _ in range(2):
        result = run({"total": total, "count": count}, x=X)
    assert result.layout == by_columns
    np.testing.assert_array_equal(whole(result), (X**3).T)
    np.testing.assert_array_equal(total[...], X**3)
    assert int(count[...]) == 2


def test_one_on_another_mesh_of_the_same_devices_stays_there() -> None:
    mesh = jax.make_mesh((8,), ("z",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec(None, "z"))
    total = jax.new_ref(jax.device_put(X, sharding))
    jit(accumulate)(total, X)
    assert total.sharding == sharding


def test_what_fails_leaves_it_as_it_was() -> None:
    total = ref_of(ROWS)

    def fails(total: jax.Ref) -> None:
        total[...] += 1
        raise KeyError("no")

    with pytest.raises(KeyError):
        jit(fails)(total)
    np.testing.assert_array_equal(total[...], X)


def test_mistakes_are_named() -> None:
    total = ref_of(ROWS)
    with pytest.raises(ValueError, match=r"one jax.Ref is passed twice"):
        jit(lambda a, b: None)(total, total)
    with pytest.raises(ValueError, match=r"itself returns a jax.Ref, .* return its value"):
        jit(itself)(total)
    with pytest.raises(TypeError, match=r"argument total is a jax.Ref, .* give its value"):
        jit(itself).lower(total)


def itself(total: jax.Ref) -> jax.Ref:
    return total
