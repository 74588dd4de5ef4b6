"""What may stand beside a DTensor, and the errors of what may not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from dtensor import UNSHARDED, LayoutError, MeshError
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, message, placed

VALUES = np.arange(36, dtype=np.float32).reshape(6, 6)


@pytest.mark.parametrize(
    "small",
    [
        2.5,
        np.float32(2.5),
        np.array(2.5, np.float32),
        jnp.float32(2.5),
        np.arange(6),
        jnp.arange(6),
        np.arange(6) % 2 == 0,
        [0, 1, 2, 3, 4, 5],
        np.ones((3, 1, 6), int),
    ],
    ids=repr,
)
def test_scalars_and_small_integer_arrays_are_replicated(small: Any) -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    plain = np.asarray(small)
    assert_same(x + small, VALUES + plain)
    assert_same(small * x, plain * VALUES)
    assert (x + small).layout.sharding_specs[-2:] == ["x", "y"]


@pytest.mark.parametrize(
    "large",
    [
        np.ones((6, 6), np.float32),
        np.ones(2, np.float32)[:1],
        np.arange(20),
        jnp.ones((6, 6)),
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    ],
    ids=repr,
)
def test_other_plain_arrays_are_errors_that_say_what_to_do(large: Any) -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    array = np.asarray(large)
    kind = "jax.Array" if isinstance(large, jax.Array) else "NumPy array"
    text = message(lambda: x + large, LayoutError)
    assert text == (
        f"the other operand of + is a plain {kind} of {array.dtype}{list(array.shape)}, beside a "
        "DTensor on mesh(x=3, y=2); only numbers and integer or boolean arrays of fewer than 20 "
        "elements are copied there by themselves: give it a layout, with "
        "dtensor.copy_to_mesh(array, layout)"
    )
    with pytest.raises(LayoutError):
        large + x


def test_the_error_names_the_argument() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    text = message(lambda: dnp.concatenate([x, VALUES]), LayoutError)
    assert text.startswith("concatenate: argument 0[1] is a plain NumPy array of float32[6, 6]")
    text = message(lambda: np.sum(x, where=np.ones((6, 6), bool)), LayoutError)
    assert text.startswith("numpy.sum: argument 'where' is a plain NumPy array of bool[6, 6]")


def test_a_jax_array_that_lies_on_the_mesh_is_taken() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert_same(x + x.to_jax(), VALUES * 2)
    assert_same(x.to_jax() + x, VALUES * 2)


def test_text_and_objects_are_errors() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    text = message(lambda: x + np.array(["a"]), TypeError)
    assert text.startswith("the other operand of + has element type <U1, which devices cannot hold")
    text = message(lambda: x + np.ma.masked_less(np.ones(3, np.int32), 2), TypeError)
    assert text.startswith("the other operand of + is a masked array, whose mask would be lost")


def test_two_meshes_are_an_error_that_names_both() -> None:
    x, y = placed(VALUES, MESH_3X2, "x", "y"), placed(VALUES[0], dtensor.create_mesh([("z", 3)]))
    text = message(lambda: x + y, MeshError)
    assert text == (
        "+: operand 0 lies on mesh(x=3, y=2) of devices [0, 1, 2, 3, 4, 5] and +: operand 1 on "
        "mesh(z=3) of devices [0, 1, 2], but an operation runs on one mesh; bring one over with "
        "dtensor.relayout(x, layout)"
    )
    text = message(lambda: dnp.concatenate([y, x[0]]), MeshError)
    assert text.startswith("concatenate: argument 0[0] lies on mesh(z=3)")
    other = layout(MESH_2X4, UNSHARDED, UNSHARDED)
    text = message(lambda: dnp.add(x, 1, layout=other), MeshError)
    assert text.startswith("the layout of the result lies on mesh(x=2, y=4) of devices")


OUTSIDE = (
    "a DTensor from outside is used in a function that jax is tracing; pass it as an argument of "
    "that function, or compile the function with dtensor.jit"
)


def test_a_dtensor_in_a_traced_function_must_be_its_argument() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    text = message(lambda: jax.jit(lambda y: x + y)(1.0), TypeError)
    assert text == OUTSIDE
    text = message(lambda: jax.jit(lambda y: (x + x).to_jax() + y)(1.0), TypeError)
    assert text == OUTSIDE
    assert_same(dtensor.jit(lambda x, y: x + y)(x, 1.0), VALUES + 1)


def test_results_never_depend_on_values() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    for run in (lambda: dnp.nonzero(x), lambda: dnp.unique(x), lambda: dnp.arange(x[0, 0])):
        text = message(run, TypeError)
        assert "needs the values of an array" in text
        assert "what settles the shape" in text
    assert_same(dnp.nonzero(x[0], size=6)[0], np.array([1, 2, 3, 4, 5, 0]))


def test_a_gradient_may_take_dtensors_that_it_does_not_trace() -> None:
    x, w = placed(VALUES, MESH_3X2, "x"), placed(VALUES, MESH_3X2, "x", "y")

    def loss(w: Any, x: Any) -> Any:
        return (w * x).sum() + dnp.sum(dnp.multiply(x, w)) + (x - w).sum()

    for gradient in (jax.grad(loss)(w, x), jax.grad(lambda w: loss(w, x))(w)):
        np.testing.assert_allclose(np.asarray(gradient.to_jax()), 2 * VALUES - 1)
    with pytest.raises(TypeError, match="a DTensor from outside is used in a function that jax"):
        jax.jit(lambda w: w * x)(w)


@pytest.mark.parametrize("number", [2, 2.0, 2j], ids=repr)
def test_a_bool_does_not_make_the_type_of_a_number_one_that_others_give_way_to(number: Any) -> None:
    plain = jnp.asarray(number)
    x = dtensor.copy_to_mesh(plain, layout(MESH_3X2))
    for got, expected in [(x + True, plain + True), (True * x, True * plain)]:
        assert (got.dtype, got.weak_type) == (expected.dtype, expected.weak_type)
    small = (True + x) * dtensor.copy_to_mesh(np.ones(6, np.int8), layout(MESH_3X2, "x"))
    assert small.dtype == ((True + plain) * jnp.ones(6, np.int8)).dtype


def test_a_traced_array_that_left_its_function_is_said_to_be_one() -> None:
    left: list[Any] = []

    @jax.jit
    def keep(x: Any) -> Any:
        left.append(x)
        return x

    keep(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError, match=r"operand of \+ is a traced array"):
        placed(VALUES, MESH_3X2, "x", "y") + left[0]
