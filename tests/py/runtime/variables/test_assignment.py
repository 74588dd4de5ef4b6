"""Assigning to variables, and what becomes of their buffers."""

import operator
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import dtensor
from dtensor.compiler.relayout import copy_to_mesh
from dtensor.compiler.variables.engine import DVariable
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import from_jax
from dtensor.runtime.client import create_mesh
from dtensor.runtime.transfer import pack, unpack
from tests.py.runtime.variables.support import (
    BOTH,
    MESH,
    OTHER,
    ROWS,
    VALUES,
    WHOLE,
    addresses,
    values,
    variable,
)


def test_assignment_keeps_the_layout() -> None:
    v = variable(BOTH)
    assert v.assign(copy_to_mesh(2 * VALUES, BOTH)) is v
    np.testing.assert_array_equal(values(v), 2 * VALUES)
    v.assign(copy_to_mesh(3 * VALUES, ROWS))  # relaid
    assert v.layout == v.value().layout == BOTH
    np.testing.assert_array_equal(values(v), 3 * VALUES)
    v.assign(variable(WHOLE))
    np.testing.assert_array_equal(values(v), VALUES)
    assert v.value().layout == BOTH
    assert v.assign(v, read_value=False) is None
    np.testing.assert_array_equal(values(v), VALUES)


def test_numbers_and_small_integer_arrays_are_assigned_as_they_are() -> None:
    scalar = DVariable(1.5, layout=Layout([], MESH))
    scalar.assign(2)
    assert scalar.numpy() == 2.0
    scalar.assign(np.float64(2.5))
    assert scalar.numpy() == 2.5
    small = DVariable([1.0, 2.0], layout=Layout(["x"], MESH))
    small.assign([3, 4])
    assert [float(part[0]) for part in unpack(small)] == [3] * 4 + [4] * 4


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (VALUES, LayoutError, r"given a plain ndarray of float32\[4, 16\]; .*copy_to_mesh"),
        (jnp.asarray(VALUES), LayoutError, "given a plain ArrayImpl"),
        (1.0, LayoutError, r"shape \[4, 16\], the value assigned to it \[\]"),
        (copy_to_mesh(VALUES[:2], ROWS), LayoutError, r"the value assigned to it \[2, 16\]"),
        (copy_to_mesh(VALUES.astype(int), ROWS), TypeError, "of float32, the value .* of int32"),
        (
            copy_to_mesh(VALUES, Layout.replicated(OTHER, 2)),
            LayoutError,
            r"lies on mesh\(x=2, y=4\), the value assigned to it on mesh\(x=8\)",
        ),
        ("text", TypeError, "has element type <U4, which devices cannot hold"),
        (None, TypeError, "has element type object, which devices cannot hold"),
    ],
)
def test_an_assignment_that_fails_changes_nothing(
    value: Any, error: type[Exception], message: str
) -> None:
    v = variable(BOTH)
    held = v.to_jax()
    with pytest.raises(error, match=message):
        v.assign(value)
    assert v.to_jax() is held


def test_an_integer_variable_takes_no_fraction() -> None:
    count = DVariable(3, layout=Layout([], MESH))
    with pytest.raises(TypeError, match="of int32 and cannot take a value of float32"):
        count.assign(0.5)
    with pytest.raises(TypeError, match="of int32, the value assigned to it of float32"):
        count.assign_add(0.5)
    assert count.assign_add(1).numpy() == 4  # type: ignore[union-attr]


def test_adding_and_subtracting() -> None:
    v = variable(BOTH)
    assert v.assign_add(copy_to_mesh(VALUES, ROWS)) is v
    v.assign_sub(copy_to_mesh(np.ones(16, np.float32), Layout(["y"], MESH)))
    v.assign_add(0.25, read_value=False)
    v.assign_add(v)
    # f32, the same operations in the same order: exact
    np.testing.assert_array_equal(values(v), 2 * (VALUES + VALUES - 1 + np.float32(0.25)))
    assert v.value().layout == BOTH


@pytest.mark.parametrize("method", ["assign_add", "assign_sub"])
def test_an_update_that_fails_changes_nothing(method: str) -> None:
    v = variable(BOTH)
    update = getattr(v, method)
    with pytest.raises(LayoutError, match="given a plain ndarray of float32"):
        update(VALUES)
    with pytest.raises(LayoutError, match=r"the value assigned to it \[3, 4, 16\]"):
        update(copy_to_mesh(np.ones((3, 4, 16), np.float32), Layout.replicated(MESH, 3)))
    with pytest.raises(LayoutError, match="mesh"):
        update(copy_to_mesh(VALUES, Layout.replicated(OTHER, 2)))
    with pytest.raises((TypeError, ValueError)):
        update(copy_to_mesh(np.ones((4, 5), np.float32), ROWS))
    np.testing.assert_array_equal(values(v), VALUES)


@pytest.mark.parametrize("update", [operator.iadd, operator.isub, operator.imul])
def test_operators_in_place_point_to_assign(update: Any) -> None:
    with pytest.raises(TypeError, match=r"would replace the variable by an array; use v\.assign"):
        update(variable(), 1)


def test_an_update_writes_over_the_old_value() -> None:
    v = variable(BOTH)
    v.assign_add(1)  # the first array may lie in the host array's own memory
    before = addresses(v)
    for _ in range(3):
        v.assign_add(1)
    assert addresses(v) == before


def test_a_value_that_is_held_is_not_written_over() -> None:
    v = variable(BOTH)
    for hold in (DVariable.value, DVariable.to_jax, DVariable.unpack):
        held = hold(v)
        parts = held if isinstance(held, list) else [held]
        before = [np.asarray(getattr(part, "_array", part)).copy() for part in parts]
        v.assign_add(1)
        v.assign_add(1)
        for part, old in zip(parts, before, strict=True):
            np.testing.assert_array_equal(np.asarray(getattr(part, "_array", part)), old)
    initial = copy_to_mesh(VALUES, BOTH)
    first, second = DVariable(initial), DVariable(initial)
    first.assign_add(1)
    second.assign(first)
    first.assign_add(1)
    np.testing.assert_array_equal(values(initial), VALUES)
    np.testing.assert_array_equal(values(second), VALUES + 1)
    np.testing.assert_array_equal(values(first), VALUES + 1 + 1)


def test_an_array_of_jax_that_became_a_variable_survives() -> None:
    array = jax.device_put(VALUES, copy_to_mesh(VALUES, ROWS).to_jax().sharding)
    v = DVariable(array, layout=ROWS)
    other = copy_to_mesh(VALUES, ROWS).to_jax()
    v.assign_add(1)
    v.assign(other)
    v.assign_add(1)
    np.testing.assert_array_equal(array, VALUES)
    np.testing.assert_array_equal(other, VALUES)
    np.testing.assert_array_equal(values(v), VALUES + 1)


def test_arrays_that_share_their_buffers_survive() -> None:
    written_otherwise = NamedSharding(jax.make_mesh((8,), ("x",)), PartitionSpec("x"))
    array = jax.device_put(np.ones((8, 3), np.float32), written_otherwise) + 1
    step = dtensor.jit(lambda v, x: (v.assign_add(x), x)[1])
    v = DVariable(from_jax(array))
    assert v.to_jax() is not array
    np.testing.assert_array_equal(values(step(v, array)), 2)
    assert not array.is_deleted()
    one = create_mesh([("x", 1)])
    v = DVariable(np.ones((2, 3), np.float32), layout=Layout.replicated(one, 2))
    v.assign_add(1)
    (part,) = v.value().unpack()
    np.testing.assert_array_equal(values(step(v, part)), 2)
    np.testing.assert_array_equal(part, np.full((2, 3), 2))
    v = DVariable(pack([part], v.layout))
    np.testing.assert_array_equal(values(step(v, part)), 2)
    before = addresses(v)
    v.assign_add(part)
    assert addresses(v) == before


def test_a_lost_value_is_reported_and_can_be_replaced() -> None:
    v = variable(BOTH)
    v._held.delete()
    assert "deleted" in repr(v)
    for use in (DVariable.value, lambda v: v + 1, lambda v: v.assign_add(1)):
        with pytest.raises(RuntimeError, match=r"value of variable 'w' is lost: .* assign a new"):
            use(v)
    v.assign(copy_to_mesh(VALUES, BOTH))
    np.testing.assert_array_equal(values(v), VALUES)


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", 300), ("int8", -129), ("uint8", -1), ("int4", 8)]
)
def test_an_integer_outside_of_the_type_is_an_error(dtype: str, value: int) -> None:
    v = dtensor.DVariable([1, 2, 3, 4], dtype=dtype, layout=Layout(["x"], MESH), name="v")
    scalar = dtensor.DVariable(1, dtype=dtype, layout=Layout([], MESH), name="s")
    for update in (
        lambda: v.assign(np.full(4, value)),
        lambda: v.assign_add(value),
        lambda: scalar.assign(value),
        dtensor.jit(lambda: scalar.assign(value, read_value=False)),
        lambda: dtensor.DVariable([value], dtype=dtype, layout=Layout([None], MESH)),
    ):
        with pytest.raises(OverflowError, match=rf"is of u?int\d, .* and cannot take {value};"):
            update()
    assert list(values(v.value())) == [1, 2, 3, 4]
    assert int(scalar) == 1


def test_errors_of_a_sum_name_the_variable() -> None:
    v = dtensor.DVariable(np.ones(4, np.int32), layout=Layout(["x"], MESH), name="v")
    big = dtensor.copy_to_mesh(np.ones((2, 4), np.int32), Layout([None, None], MESH))
    three = dtensor.copy_to_mesh(np.ones(3, np.int32), Layout([None], MESH))
    halves = dtensor.copy_to_mesh(np.ones(4, np.float32), Layout(["x"], MESH))
    other = dtensor.create_mesh([("z", 8)])
    elsewhere = dtensor.copy_to_mesh(np.ones(4, np.int32), Layout([None], other))
    cases: list[tuple[Any, type[Exception], str]] = [
        (0.5, TypeError, "is of int32, the value assigned to it of float32; give a number"),
        (halves, TypeError, r"is of int32, the value assigned to it of float32; .*value\.astype"),
        (big, LayoutError, r"has the shape \[4\], the value assigned to it \[2, 4\]"),
        (three, LayoutError, r"has the shape \[4\], the value assigned to it \[3\]"),
        (
            elsewhere,
            LayoutError,
            r"lies on mesh\(x=2, y=4\), the value assigned to it on mesh\(z=8",
        ),
        (jax.random.key(0), TypeError, "is of int32 and the value added to it of key<fry>; random"),
    ]
    for delta, error, match in cases:
        for update in (v.assign_add, v.assign_sub):
            with pytest.raises(error, match="^variable 'v' " + match):
                update(delta)
    np.testing.assert_array_equal(values(v.value()), np.ones(4))


def test_threads_may_read_while_one_updates() -> None:
    v = dtensor.DVariable(np.zeros((8, 8), np.float32), layout=Layout(["x", "y"], MESH))
    step = dtensor.jit(lambda: v.assign_add(jnp.float32(1), read_value=False))
    double = dtensor.jit(lambda: v.value() * 2)
    errors: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for tensor in (v.value(), double()):
                    for shard in tensor.unpack():
                        values = np.asarray(shard)
                        assert (values == values[0, 0]).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        step()
    done.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert float(v.unpack()[0][0, 0]) == 300
