"""Numeric twins of the whole line: every family on 8 devices against one, over many layouts."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from tests.py.line.families import FAMILIES, Family
from tests.py.line.layouts import all_layouts, array, assert_same, mesh, sample

# Of layouts, per family: other ones for each element type, of which float32 stands for all.
COMBINATIONS = {"float32": 4, "bfloat16": 2, "int32": 2}


def inputs(family: Family, dtype: str) -> list[np.ndarray[Any, Any]]:
    """Arguments; a second one that holds indices runs below and beyond the table."""
    arrays = [array(shape, dtype, seed) for seed, shape in enumerate(family.shapes)]
    if family.shapes[1:] in (((4, 6),), ((1,),)):
        beyond = np.random.default_rng(5).integers(-18, 20, family.shapes[1])
        arrays[1] = np.asarray(beyond).astype(np.int32)
    return arrays


CASES = [(name, dtype) for name, family in FAMILIES.items() for dtype in family.dtypes]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=[f"{n}-{d}" for n, d in CASES])
def test_a_family_gives_what_one_device_gives(name: str, dtype: str) -> None:
    family = FAMILIES[name]
    arrays = inputs(family, dtype)
    want = jax.jit(family.fn)(*arrays)
    chooser = random.Random(f"{name} {dtype}")
    for layouts in sample(list(family.shapes), COMBINATIONS[dtype], seed=f"{name} {dtype}"):
        out = {
            key: None if chooser.random() < 0.5 else chooser.choice(all_layouts(value.shape))
            for key, value in want.items()
        }
        step = dtensor.jit(family.fn, in_layouts=layouts, out_layouts=out, mesh=mesh())
        got = step(*arrays)
        for key, value in want.items():
            asked = out[key]
            assert asked is None or got[key].layout == asked
            what = f"{name}.{key} {dtype} from {[x.short() for x in layouts]} to {asked}"
            assert_same(got[key], value, what)


BLOCKED: list[tuple[Any, ...]] = [
    ((3, "x"), dtensor.UNSHARDED, dtensor.UNSHARDED),
    ((3, "y"), "x", dtensor.UNSHARDED),
    (("x", 3, "y"), dtensor.UNSHARDED, dtensor.UNSHARDED),
    (("y", 3), ("x",), dtensor.UNSHARDED),
    ((2, "y", 3, "x"), dtensor.UNSHARDED, dtensor.UNSHARDED),
    (dtensor.AxisRef("y", 1, 2), dtensor.AxisRef("y", 2, 2), "x"),
    ((dtensor.AxisRef("y", 2, 2), "x"), dtensor.UNSHARDED, dtensor.AxisRef("y", 1, 2)),
]


@pytest.mark.sweep
@pytest.mark.parametrize("specs", BLOCKED, ids=[str(i) for i in range(len(BLOCKED))])
def test_blocks_and_parts_of_axes_inside_a_program_change_no_value(specs: tuple[Any, ...]) -> None:
    layout = dtensor.Layout(specs, mesh())
    first = BLOCKED.index(specs) % 4  # of the layouts that are given, each has others

    def fn(a: jax.Array) -> dict[str, jax.Array]:
        b = dtensor.relayout(a * 2, layout)
        return {
            "same": b,
            "iota": b + jax.lax.broadcasted_iota(b.dtype, b.shape, 0),
            "sum": b.sum(0),
            "split": b.reshape(3, 16, 8, 4)[1] + 1,
            "square": jnp.einsum("ijk,ljk->il", b, b),
        }

    a = array((48, 8, 4), "float32", 3)
    want = jax.jit(fn)(a)
    for given in all_layouts(a.shape)[first::8]:
        got = dtensor.jit(fn, in_layouts=(given,))(a)
        for key, value in want.items():
            assert_same(got[key], value, f"{key} of {layout.short()} from {given.short()}")


def test_random_numbers_do_not_depend_on_the_layout() -> None:
    def fn(seed: jax.Array) -> tuple[jax.Array, jax.Array]:
        key = jax.random.wrap_key_data(seed)
        return jax.random.normal(key, (8, 24)), jax.random.bits(key, (16, 4))

    seed = np.array([1, 2], np.uint32)
    want = jax.jit(fn)(seed)
    for first, second in sample([(8, 24), (16, 4)], 6, seed=1):
        got = dtensor.jit(fn, out_layouts=(first, second), mesh=mesh())(seed)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.asarray(one.to_jax()), np.asarray(other))


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(), (1,), (1, 8), (0, 8), (8, 0, 4)])
def test_scalars_single_rows_and_nothing_at_all(shape: tuple[int, ...]) -> None:
    def fn(a: jax.Array) -> dict[str, jax.Array]:
        return {"twice": a * 2, "sum": a.sum(), "flat": a.reshape(-1)}

    a = array(shape, "float32", 1)
    want = jax.jit(fn)(a)
    for layout in all_layouts(shape):
        got = dtensor.jit(fn, in_layouts=(layout,), mesh=mesh())(a)
        for key, value in want.items():
            assert_same(got[key], value, f"{key} of {shape} from {layout.short()}")
