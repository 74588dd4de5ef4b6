"""Random numbers depend on seed and shape alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.random as dr
from dtensor import UNSHARDED, LayoutError
from dtensor.compiler.default_mesh import default_mesh
from tests.py.eager.support import (
    MESH_2X4,
    MESH_3X2,
    assert_same,
    layout,
    lowered,
    message,
    placed,
    whole,
)

LAYOUTS = [
    layout(MESH_2X4, UNSHARDED, UNSHARDED),
    layout(MESH_2X4, "x", "y"),
    layout(MESH_2X4, "y", "x"),
    layout(MESH_2X4, ("x", "y"), UNSHARDED),
    layout(MESH_3X2, "x", "y"),
    layout(dtensor.create_mesh([("one", 1)]), UNSHARDED, UNSHARDED),
]
SHAPE = (24, 4)


# From 0.12 on, XLA's CPU code rounds a logarithm differently in the lanes of a vector and in what
# is left over: plain jax.jit of one function of the same bits differs so between two shapes. The
# polynomial of erf_inv that follows passes a last bit on as up to four.
LAST_BITS_DEPEND_ON_SHAPES = tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 12)
OF_LOGARITHMS = (dr.stateless_normal, dr.stateless_truncated_normal)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "draw",
    [
        dr.stateless_normal,
        dr.stateless_truncated_normal,
        dr.stateless_uniform,
        partial(dr.stateless_uniform, minval=-5, maxval=9, dtype=np.int32),
        partial(dr.stateless_uniform, minval=None, maxval=None, dtype=np.int32),
    ],
    ids=["normal", "truncated_normal", "uniform", "integers", "full range"],
)
def test_values_do_not_depend_on_the_layout_or_the_mesh(draw: Callable[..., Any]) -> None:
    values = [whole(draw(SHAPE, (1, 2), layout=each)) for each in LAYOUTS]
    for each in values:
        if values[0].dtype.kind == "f" and LAST_BITS_DEPEND_ON_SHAPES and draw in OF_LOGARITHMS:
            np.testing.assert_array_max_ulp(each, values[0], maxulp=4)
        else:
            np.testing.assert_array_equal(each, values[0])
    assert not np.array_equal(whole(draw(SHAPE, (2, 1), layout=LAYOUTS[1])), values[0])


def test_values_are_those_of_jax_on_one_device() -> None:
    key = jax.random.wrap_key_data(jnp.array([1, 2], np.uint32), impl="threefry2x32")
    drawn = dr.stateless_random_normal(SHAPE, (1, 2), layout=LAYOUTS[1])
    assert drawn.layout == LAYOUTS[1]
    assert_same(drawn, jax.random.normal(key, SHAPE))
    assert_same(
        dr.stateless_random_uniform(SHAPE, key, layout=LAYOUTS[1]), jax.random.uniform(key, SHAPE)
    )


def test_a_seed_is_two_integers_or_a_key() -> None:
    def draw(seed: Any) -> np.ndarray[Any, Any]:
        return whole(dr.stateless_uniform((8,), seed, layout=layout(MESH_2X4, "x")))

    expected = draw((5, 2**32 - 1))
    key = jax.random.wrap_key_data(jnp.array([5, 2**32 - 1], np.uint32), impl="threefry2x32")
    for seed in (
        [5, -1],
        np.array([5, -1]),
        jax.random.key_data(key),
        key,
        placed(np.array([5, -1], np.int32), MESH_2X4),
    ):
        np.testing.assert_array_equal(draw(seed), expected)


@pytest.mark.parametrize(
    ("seed", "text"),
    [
        (7, "seed must be two integers or a random key, got int64[]; write (seed, 0)"),
        ((1, 2, 3), "seed must be two integers or a random key, got int64[3]; write (seed, 0)"),
        ((1.5, 2.0), "seed must be two integers or a random key, got float64[2]"),
        ((2**40, 0), "seed [1099511627776, 0] has an integer of more than 32 bits"),
        (jax.random.key(1, impl="rbg"), "make it with jax.random.key(seed, impl='threefry2x32')"),
    ],
    ids=["one", "three", "floats", "large", "rbg"],
)
def test_other_seeds_are_errors(seed: Any, text: str) -> None:
    got = message(lambda: dr.stateless_normal((8,), seed, layout=layout(MESH_2X4, "x")), TypeError)
    assert text in got


def test_means_deviations_and_bounds() -> None:
    where = layout(MESH_2X4, "x", "y")
    shape = (64, 64)
    normal = whole(dr.stateless_normal(shape, (0, 1), 5.0, 2.0, layout=where))
    assert abs(normal.mean() - 5) < 0.1
    assert abs(normal.std() - 2) < 0.1
    cut = whole(dr.stateless_truncated_normal(shape, (0, 1), 5.0, 2.0, layout=where))
    assert (cut.min(), cut.max()) == pytest.approx((1, 9), abs=0.05)
    uniform = whole(dr.stateless_uniform(shape, (0, 1), -3.0, 1.0, layout=where))
    assert (uniform.min(), uniform.max()) == pytest.approx((-3, 1), abs=0.01)
    integers = whole(dr.stateless_uniform(shape, (0, 1), -3, 5, np.int8, layout=where))
    assert set(integers.ravel()) == set(range(-3, 5))
    halves = dr.stateless_normal(shape, (0, 1), dtype=jnp.bfloat16, layout=where)
    assert halves.dtype == jnp.bfloat16
    unsigned = whole(dr.stateless_uniform(shape, (0, 1), None, None, np.uint8, layout=where))
    assert len(set(unsigned.ravel())) == 256


def test_bad_types_bounds_and_shapes_are_errors() -> None:
    where = layout(MESH_2X4, "x")
    text = message(lambda: dr.stateless_normal((8,), (0, 1), dtype=int, layout=where), ValueError)
    assert text == "normal numbers need a floating-point dtype, got int64"
    text = message(
        lambda: dr.stateless_uniform((8,), (0, 1), dtype=np.int32, layout=where), ValueError
    )
    assert text.endswith("must be both None or not None. Got `minval`=0 and `maxval`=None.")
    text = message(lambda: dr.stateless_uniform((8,), (0, 1), dtype=bool, layout=where), ValueError)
    assert "got dtype bool; it must be a floating-point or integer type" in text
    text = message(lambda: dr.stateless_normal(8, (0, 1), layout=where), TypeError)  # type: ignore[arg-type]
    assert text == "shape must be a sequence of integers, got 8"
    assert dr.stateless_normal((7,), (0, 1), layout=where).shape == (7,)
    text = message(lambda: dr.stateless_normal((8,), (0, 1)), LayoutError)
    assert "stateless_normal got no DTensor, so its mesh is not known" in text


def test_each_device_makes_its_own_shard_only() -> None:
    where = layout(MESH_2X4, "x", "y")

    def draw(seed: Any) -> Any:
        return dr.stateless_normal((4096, 4096), seed)

    compiled = lowered(draw, where, np.array([1, 2], np.uint32)).compile()
    analysis = compiled.memory_analysis()
    whole_bytes = 64 * 2**20
    assert analysis.output_size_in_bytes == whole_bytes // 8
    assert analysis.temp_size_in_bytes <= 3 * whole_bytes // 8 + 4096
    assert not compiled.collectives


def test_without_a_layout_the_default_mesh_has_replicas() -> None:
    with default_mesh(MESH_3X2):
        drawn = dr.stateless_normal((6, 4), (1, 2))
    assert drawn.layout == layout(MESH_3X2, UNSHARDED, UNSHARDED)


def test_in_a_traced_function_the_layout_is_a_constraint() -> None:
    where = layout(MESH_3X2, "x", "y")

    def step(seed: Any) -> Any:
        return dr.stateless_normal((6, 4), seed, layout=where) * 1

    drawn = dtensor.jit(step)(np.array([1, 2], np.uint32))
    assert drawn.layout == where
    assert_same(drawn, whole(dr.stateless_normal((6, 4), (1, 2), layout=where)))


def test_split_gives_seeds() -> None:
    seeds = dr.stateless_split((1, 2), 3, mesh=MESH_2X4)
    assert seeds.layout == layout(MESH_2X4, UNSHARDED, UNSHARDED)
    assert seeds.dtype == np.uint32
    rows = whole(seeds)
    assert rows.shape == (3, 2)
    assert len({tuple(row) for row in rows}) == 3
    plain = dr.stateless_split((1, 2), 3)
    np.testing.assert_array_equal(plain, rows)
    where = layout(MESH_2X4, "x")
    one = dr.stateless_normal((8,), seeds[1], layout=where)
    assert_same(one, whole(dr.stateless_normal((8,), rows[1], layout=where)))


@pytest.mark.parametrize("where", LAYOUTS[:4], ids=lambda where: where.short())
def test_dropout_drops_the_same_elements_in_every_layout(where: Any) -> None:
    x = dtensor.copy_to_mesh(np.ones(SHAPE, np.float32), where)
    dropped = dr.dropout(x, 0.25, seed=7)
    assert dropped.layout == where
    values = whole(dropped)
    assert set(values.ravel()) == {np.float32(0), np.float32(1 / 0.75)}
    assert 10 <= (values == 0).sum() <= 40
    first = dr.dropout(dtensor.copy_to_mesh(np.ones(SHAPE, np.float32), LAYOUTS[0]), 0.25, seed=7)
    np.testing.assert_array_equal(values, whole(first))
    assert_same(dr.dropout(x, 0.0, seed=7), np.ones(SHAPE))


def test_dropout_of_whole_rows() -> None:
    x = placed(np.ones(SHAPE, np.float32), MESH_2X4, "x", "y")
    values = whole(dr.dropout(x, 0.5, noise_shape=(None, 1), seed=(7, 7)))
    assert ((values == values[:, :1]).all(), 2 < (values[:, 0] == 0).sum() < 22) == (True, True)


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ({"rate": "1", "seed": 1}, ValueError, "rate should be a number for dropout, got str"),
        ({"rate": True, "seed": 1}, ValueError, "rate should be a number for dropout, got bool"),
        ({"rate": 1, "seed": 1}, ValueError, "rate must be at least 0 and less than 1"),
        ({"rate": 1.0, "seed": 1}, ValueError, "rate must be at least 0 and less than 1"),
        ({"rate": -0.5, "seed": 1}, ValueError, "rate must be at least 0 and less than 1"),
        ({"rate": 0.5}, ValueError, "seed must be specified for DTensor dropout. Got: None"),
        (
            {"rate": 0.5, "seed": 1, "noise_shape": (5, 1)},
            ValueError,
            "noise_shape [5, 1] does not broadcast to [24, 4]",
        ),
    ],
)
def test_bad_arguments_of_dropout(args: Any, error: Any, text: str) -> None:
    x = placed(np.ones(SHAPE, np.float32), MESH_2X4, "x", "y")
    assert text in message(lambda: dr.dropout(x, **args), error)


def test_a_rate_of_dropout_is_any_number() -> None:
    values = np.arange(96, dtype=np.float32).reshape(SHAPE)
    x = placed(values, MESH_2X4, "x", "y")
    assert_same(dr.dropout(x, 0, seed=(1, 2)), values)
    half: Any = np.float32(0.5)
    assert_same(dr.dropout(x, half, seed=1), whole(dr.dropout(x, 0.5, seed=1)))


def test_dropout_needs_a_floating_point_dtensor() -> None:
    with pytest.raises(TypeError, match="dropout needs a DTensor, got ndarray"):
        dr.dropout(np.ones(3), 0.5, seed=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="floating-point type, got int32"):
        dr.dropout(placed(np.ones(3, np.int32), MESH_3X2), 0.5, seed=1)


def test_sizes_and_bounds_must_make_sense() -> None:
    where = layout(MESH_2X4, "x")
    found = message(lambda: dr.stateless_normal((-6,), (1, 2), layout=where), ValueError)
    assert found == "shape [-6] has a negative size"
    bounds: dict[str, Any] = {"minval": 3, "maxval": 3, "dtype": "int32", "layout": where}
    found = message(lambda: dr.stateless_uniform((4,), (1, 2), **bounds), ValueError)
    assert found == "stateless_uniform needs minval < maxval, got 3 and 3"
