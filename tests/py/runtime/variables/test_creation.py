"""Making variables, and reading them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from dtensor.compiler.relayout import copy_to_mesh, relayout
from dtensor.compiler.variables.engine import DVariable
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import DTensor
from dtensor.runtime.client import create_mesh
from dtensor.runtime.transfer import fetch_layout, unpack
from tests.py.runtime.variables.support import BOTH, MESH, ROWS, VALUES, WHOLE, values, variable


def test_a_dtensor_gives_the_variable_its_layout() -> None:
    v: Any = DVariable(copy_to_mesh(VALUES, ROWS))
    assert fetch_layout(v) == v.layout == ROWS
    assert (v.shape, v.dtype, v.ndim, v.size, v.nbytes) == ((4, 16), np.float32, 2, 64, 256)
    assert (v.mesh, v.local_shape, len(v), v.trainable) == (MESH, (2, 16), 4, True)
    np.testing.assert_array_equal(values(v), VALUES)
    assert DVariable(copy_to_mesh(VALUES, ROWS), layout=ROWS).layout == ROWS
    assert DVariable(v).layout == ROWS
    assert DVariable(copy_to_mesh(VALUES, ROWS).to_jax()).layout == ROWS


def test_any_array_becomes_a_variable_with_a_layout() -> None:
    assert variable(BOTH).layout == BOTH
    assert DVariable(jnp.asarray(VALUES), layout=ROWS).layout == ROWS
    v = DVariable([[1, 2, 3], [4, 5, 6]], layout=ROWS, dtype=jnp.bfloat16)
    assert (v.dtype, v.shape) == (jnp.bfloat16, (2, 3))
    assert DVariable(2.5, layout=Layout([], MESH)).numpy() == 2.5


def test_a_function_creates_its_array_in_shards() -> None:
    v = DVariable(lambda: jax.random.normal(jax.random.key(3), (4, 16)), layout=BOTH)
    np.testing.assert_array_equal(values(v), jax.random.normal(jax.random.key(3), (4, 16)))
    assert v.unpack()[0].shape == (2, 4)
    assert DVariable(lambda: VALUES, layout=BOTH).layout == BOTH
    assert DVariable(lambda: copy_to_mesh(VALUES, BOTH)).layout == BOTH
    assert DVariable(lambda: copy_to_mesh(VALUES, BOTH), layout=BOTH).layout == BOTH
    assert DVariable(lambda: jnp.ones((4, 16)), layout=BOTH, dtype=jnp.bfloat16).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("initial_value", "kwargs", "error", "message"),
    [
        (VALUES, {}, LayoutError, "variable 'w' has no layout: give layout=, or a DTensor .* nda"),
        (lambda: VALUES, {}, LayoutError, "has no layout: give layout="),
        (jax.random.key(0), {"layout": WHOLE}, LayoutError, "array of keys .* has 2 dimensions"),
        ("text", {"layout": WHOLE}, TypeError, "has element type <U4, which devices cannot hold"),
        (VALUES, {"layout": "x"}, LayoutError, "layout= is of type str, not a Layout"),
        (VALUES, {"layout": Layout(["x"], MESH)}, LayoutError, "rank|dimensions"),
        (VALUES, {"layout": ROWS, "shape": (4, 4)}, LayoutError, r"shape \[4, 16\], but shape= sa"),
        (VALUES, {"layout": ROWS, "dtype": np.int32}, TypeError, "of int32 and cannot take a val"),
    ],
)
def test_what_cannot_be_a_variable(
    initial_value: Any, kwargs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        DVariable(initial_value, name="w", **kwargs)


def test_a_dtensor_of_another_layout_or_type_than_asked_for() -> None:
    tensor = copy_to_mesh(VALUES, ROWS)
    with pytest.raises(LayoutError, match=r'has the layout \[{"x"}, {}\] .* but layout= says'):
        DVariable(tensor, layout=BOTH)
    with pytest.raises(TypeError, match=r"is of float32, but dtype= says bfloat16; leave out dtyp"):
        DVariable(tensor, dtype=jnp.bfloat16)


def test_operators_methods_and_functions_read_the_value() -> None:
    v, a = variable(), copy_to_mesh(VALUES + 2, BOTH)
    for result, expected in [
        (v + a, 2 * VALUES + 2),
        (a + v, 2 * VALUES + 2),
        (a - v, 2 + 0 * VALUES),
        (v - a, -2 + 0 * VALUES),
        (2 * v, 2 * VALUES),
        (v @ v.T, VALUES @ VALUES.T),
        (-v, -VALUES),
        (abs(v), abs(VALUES)),
        (v > 0, VALUES > 0),
        (v == v, VALUES == VALUES),
        (v[1], VALUES[1]),
        (v.sum(axis=0), VALUES.sum(0)),
        (v.at[0].set(0), np.concatenate([0 * VALUES[:1], VALUES[1:]])),
        (np.add(v, a), 2 * VALUES + 2),
        (np.concatenate([v, v]), np.concatenate([VALUES, VALUES])),
        (np.sum(v, axis=1), VALUES.sum(1)),
        (dnp.multiply(v, v), VALUES * VALUES),
    ]:
        assert type(result) is DTensor
        # f32 sums over shards: 1e-6
        np.testing.assert_allclose(values(result), expected, rtol=1e-6, atol=1e-6)
    assert len(list(variable(WHOLE))) == 4


def test_numbers_of_a_variable_of_one_element() -> None:
    v = DVariable(2, layout=Layout([], MESH))
    assert (float(v), int(v), bool(v), complex(v), v.item()) == (2.0, 2, True, 2 + 0j, 2)
    assert f"{DVariable(0.5, layout=Layout([], MESH)):.2f}" == "0.50"


def test_the_values_of_a_sharded_variable_are_on_no_device() -> None:
    np.testing.assert_array_equal(variable(WHOLE).numpy(), VALUES)
    np.testing.assert_array_equal(np.asarray(variable(WHOLE)), VALUES)
    with pytest.raises(LayoutError, match="no device holds all of it"):
        variable(BOTH).numpy()


def test_components_and_what_it_is() -> None:
    v = variable(ROWS)
    assert isinstance(v, DTensor)
    assert dtensor.is_dtensor(v)
    assert [part.shape for part in unpack(v)] == [(2, 16)] * 8
    assert type(relayout(v, ROWS)) is type(relayout(v, BOTH)) is DTensor
    assert type(copy_to_mesh(v, ROWS)) is DTensor
    assert v.layout == ROWS
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)


def test_what_is_printed() -> None:
    mesh = create_mesh([("x", 2)], devices=["CPU:0", "CPU:1"])
    v = DVariable(
        np.array([[1, 2]], np.float32), layout=Layout.replicated(mesh, 2), name="Variable/4"
    )
    cpu = "/job:localhost/replica:0/task:0/device:CPU:"
    assert v.handle == (
        f'DVariable(<ResourceHandle(name="Variable/4", device="{cpu}0", dtype and shapes : '
        '"[ float32, Shape: [1,2] ]")>, layout="sharding_specs:unsharded,unsharded, '
        f'mesh:|x=2|0,1|0,1|{cpu}0,{cpu}1", shape=(), dtype=resource)'
    )
    assert repr(v) == (
        "DVariable(name='Variable/4', shape=(1, 2), dtype=float32, layout=[{}, {}], "
        "mesh=mesh(x=2))\n[[1. 2.]]"
    )
    assert str(v).startswith("<DVariable 'Variable/4': DTensor([[1 2]], layout=")
    unnamed = [DVariable(1, layout=Layout([], MESH)).name for _ in range(2)]
    assert len(set(unnamed)) == 2
    assert all(name.startswith("Variable") for name in unnamed)


def test_a_layout_that_is_none_and_a_name_that_is_none_are_errors() -> None:
    with pytest.raises(LayoutError, match="dimension 0 is MATCH, which has a meaning in relayout"):
        DVariable(VALUES, layout=Layout([dtensor.MATCH, dtensor.UNSHARDED], MESH))
    with pytest.raises(TypeError, match="a variable's name is a text, not of type int"):
        DVariable(VALUES, layout=ROWS, name=5)  # type: ignore[arg-type]
    with pytest.raises(OverflowError, match="integer 1099511627776 does not fit int32"):
        DVariable(np.array([2**40]), layout=Layout.replicated(MESH, 1))


def test_an_array_made_of_a_variable_keeps_the_old_value() -> None:
    v = variable(ROWS)
    kept = [dnp.asarray(v), dnp.array(v), dnp.asarray(v, layout=ROWS), v.value()]
    assert not any(isinstance(old, DVariable) for old in kept)
    v.assign_add(1.0)
    for old in kept:
        np.testing.assert_array_equal(values(v) - values(old), np.ones_like(VALUES))
