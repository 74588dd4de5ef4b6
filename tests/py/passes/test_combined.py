"""Small arrays that are sent alike go in one message, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.stages import Compiled
from dtensor.compiler.targets.hlo import hlo_collectives
from dtensor.dialect.layout import UNSHARDED
from tests.py.passes.on_mesh import BOTH, GRID, LINE, SLOW, numbers, run

SHAPES = [(16, 24), (8, 40), (24, 8), (64, 16)]
TYPES = ["float32", "bfloat16", "int8", "uint32", "bool", "complex64", "float8_e4m3fn"]


def arrays(dtype: str, ahead: tuple[int, ...] = ()) -> list[Any]:
    return [
        numbers((*ahead, *shape), dtype) + jnp.asarray(k % 2, dtype)
        for k, shape in enumerate(SHAPES)
    ]


def messages(compiled: Compiled) -> list[str]:
    """The kinds of what the executable sends."""
    return [each.kind for each in hlo_collectives(compiled.as_text(), 8)]


def the_same(*values: Any) -> tuple[Any, ...]:
    return values


def sums(*values: Any) -> tuple[Any, ...]:
    return tuple([value.sum(0) for value in values])


def maxima(*values: Any) -> tuple[Any, ...]:
    return tuple([value.max(0) for value in values])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("mesh", "given", "wanted", "kind"),
    [
        (LINE, ["x", UNSHARDED], [UNSHARDED, UNSHARDED], "all_gather"),
        (LINE, [UNSHARDED, "x"], [UNSHARDED, UNSHARDED], "all_gather"),
        (GRID, BOTH, ["x", UNSHARDED], "all_gather"),
        (LINE, ["x", UNSHARDED], [UNSHARDED, "x"], "all_to_all"),
        (LINE, [UNSHARDED, "x"], ["x", UNSHARDED], "all_to_all"),
        (GRID, ["x", "y"], BOTH, "all_to_all"),
        (GRID, BOTH, [("y", "x"), UNSHARDED], "collective_permute"),
    ],
)
def test_moved(mesh: Any, given: list[Any], wanted: list[Any], kind: str, dtype: str) -> None:
    compiled = run(the_same, mesh, [given] * len(SHAPES), *arrays(dtype), out=wanted)
    assert [c.kind for c in compiled.collectives] == [kind] * len(SHAPES)
    assert messages(compiled) == [kind]


@pytest.mark.parametrize("wanted", [[UNSHARDED, UNSHARDED, "x"], [UNSHARDED] * 3])
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4"])
def test_elements_that_share_bytes_are_sent_by_themselves(dtype: str, wanted: list[Any]) -> None:
    """XLA for CPUs ends the process where arrays of some shapes are put side by side."""
    shapes = [(40, 1, 24), (8, 5, 8), (24, 3, 16), (16, 2, 40)]
    values = [numbers(shape, "int8").astype(bool).astype(dtype) for shape in shapes]
    compiled = run(the_same, LINE, [["x", UNSHARDED, UNSHARDED]] * 4, *values, out=wanted)
    assert len(messages(compiled)) == len(shapes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "complex64"])
@pytest.mark.parametrize("wanted", [["x", UNSHARDED], [UNSHARDED, "x"]])
def test_sums(wanted: list[Any], dtype: str) -> None:
    given = ["x", UNSHARDED, UNSHARDED]
    compiled = run(sums, LINE, [given] * len(SHAPES), *arrays(dtype, (32,)), out=wanted)
    assert messages(compiled) == ["reduce_scatter"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "uint8"])
def test_maxima(dtype: str) -> None:
    """Of floats NaN is the largest, as on one device."""
    values = [numbers((32, size), dtype) for size in (24, 8, 40)]
    if dtype in ("float32", "bfloat16"):
        values = [value.at[5, 3 * k].set(jnp.nan) for k, value in enumerate(values)]
    compiled = run(maxima, LINE, [["x", UNSHARDED]] * len(values), *values, out=["x"])
    assert len(messages(compiled)) == 1


@pytest.mark.parametrize("wanted", [[UNSHARDED, UNSHARDED], [UNSHARDED, "x"]])
@pytest.mark.parametrize(
    "dtypes",
    [("float32", "int32", "uint32", "float32"), ("bfloat16", "float16", "int16", "uint16")],
)
def test_of_several_types(dtypes: tuple[str, ...], wanted: list[Any]) -> None:
    """NaN and infinities too; they are integers on the way."""
    values = [numbers(shape, dtype) for shape, dtype in zip(SHAPES, dtypes, strict=True)]
    values[0] = values[0].at[3, 5].set(jnp.nan).at[4, 6].set(-jnp.inf)
    compiled = run(the_same, LINE, [["x", UNSHARDED]] * 4, *values, out=wanted)
    assert len(messages(compiled)) == 1


def test_lookups_of_several_tables() -> None:
    """A table each, of which rows are read: as many messages for four tables as for one."""

    def click(tables: list[Any], ids: Any, labels: Any) -> Any:
        rows = jnp.stack([table[ids[:, k]] for k, table in enumerate(tables)], 1)
        products = jnp.einsum("bid,bjd->bij", rows, rows)
        return jnp.mean((products.sum((1, 2)) - labels) ** 2)

    def collectives(count: int) -> int:
        tables = [numbers((160, 8)) for _ in range(count)]
        ids = jnp.asarray(np.random.default_rng(1).integers(0, 160, (80, count)), jnp.int32)
        layouts = (
            [dtensor.Layout(["y", UNSHARDED], GRID)] * count,
            dtensor.Layout(["x", UNSHARDED], GRID),
            dtensor.Layout(["x"], GRID),
        )
        step = dtensor.jit(
            jax.value_and_grad(click), in_layouts=layouts, options=SLOW, returns="jax"
        )
        values = (tables, ids, jnp.ones(80))
        compiled = step.lower(*values).compile()
        wanted = jax.jit(jax.value_and_grad(click))(*values)
        for want, have in zip(
            jax.tree.leaves(wanted), jax.tree.leaves(compiled(*values)), strict=True
        ):
            np.testing.assert_allclose(have, want, rtol=1e-5)
        return len(messages(compiled))

    assert collectives(4) == collectives(2)
