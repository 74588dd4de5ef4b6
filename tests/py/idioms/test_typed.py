"""What type checkers know of a user's program: each line here is checked by mypy, and runs.

A mistake that mypy has to find carries the error it finds; one that it does not is an error too.
"""

from __future__ import annotations

from typing import assert_type

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor import Compiled, CompileOptions, DTensor, DVariable, Layout, Mesh

X = np.ones((8, 4), np.float32)


def mesh() -> Mesh:
    return dtensor.create_mesh([("x", 2), ("y", 4)])


def rows() -> DTensor:
    return dtensor.copy_to_mesh(X, Layout(["x", None], mesh()))


def test_arrays() -> None:
    x = rows()
    assert_type(x + 1, DTensor)
    assert_type(1 + x, DTensor)
    assert_type(x @ x.T, DTensor)
    assert_type(x.mT, DTensor)
    assert_type(x.real, DTensor)
    assert_type(x[0].sum(axis=0), DTensor)
    assert_type(x.at[0].set(1), DTensor)
    assert_type(x.layout, Layout)
    assert_type(x.shape, tuple[int, ...])
    assert_type(float(x.sum()), float)


def test_mistakes_with_arrays() -> None:
    x = rows()
    with pytest.raises(AttributeError, match="layot"):
        _ = x.layot  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="summ"):
        x.summ(1)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="rnak"):
        _ = x.layout.rnak  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="szie"):
        _ = x.mesh.szie  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="sett"):
        x.at[0].sett(1)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="relayuot"):
        dtensor.relayuot(x, x.layout)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="stateless_unifrom"):
        _ = dtensor.random.stateless_unifrom  # type: ignore[attr-defined]


def test_variables() -> None:
    v = DVariable(rows())
    assert_type(v.value(), DTensor)
    assert_type(v.read_value(), DTensor)
    assert_type(v + 1, DTensor)
    assert_type(v.T, DTensor)
    assert_type(v.layout, Layout)
    with pytest.raises(AttributeError, match="assgn"):
        v.assgn(rows())  # type: ignore[attr-defined]


def test_layouts_of_arrays() -> None:
    x = rows()
    assert_type(dtensor.relayout(x, x.layout), DTensor)
    assert_type(dtensor.relayout(x.to_jax(), x.layout), jax.Array)
    assert_type(dtensor.relayout_like(x, x), DTensor)
    assert_type(dtensor.relayout_like(x.to_jax(), x), jax.Array)
    assert_type(dtensor.fetch_layout(x), Layout | None)
    found: object = x
    if dtensor.is_dtensor(found):
        assert_type(found, DTensor)
    numbers = dtensor.random.stateless_uniform((8, 4), seed=(1, 2), layout=x.layout)
    assert_type(numbers, DTensor)
    assert_type(dtensor.random.dropout(x, 0.5, seed=1), DTensor)


def test_programs() -> None:
    def total(x: jax.Array) -> jax.Array:
        return jnp.sum(dtensor.relayout(x, Layout([None, "y"], mesh())))

    compiled = dtensor.jit(total).lower(rows()).compile()
    assert_type(compiled, Compiled)
    kinds = set()
    for collective in compiled.collectives:
        assert_type(collective, dtensor.Collective)
        assert_type(collective.kind, str)
        assert_type(collective.bytes, float)
        assert_type(collective.trip_count, int | None)
        kinds.add(collective.kind)
    assert kinds
    assert_type(compiled.explain(), str)
    with pytest.raises(TypeError, match="did you mean 'in_layouts'"):
        dtensor.jit(total, in_layout=rows().layout)  # type: ignore[call-overload]
    with pytest.raises(dtensor.CompileError, match="effort is 'fastest'"):
        CompileOptions(effort="fastest")  # type: ignore[arg-type]
    assert_type(CompileOptions().strict, bool | dtensor.Budget)


def test_meshes_are_written_in_several_ways() -> None:
    pairs = [["x", 2], ["y", 4]]  # as JSON has them
    for same in (
        dtensor.create_mesh({"x": 2, "y": 4}),
        dtensor.create_mesh([["x", 2], ["y", 4]]),
        dtensor.create_mesh((str(name), int(str(size))) for name, size in pairs),
    ):
        assert same == mesh()
    with pytest.raises(dtensor.MeshError, match="mesh axis 'x' has size 'y'"):
        dtensor.create_mesh([("x", "y")])  # type: ignore[list-item]
