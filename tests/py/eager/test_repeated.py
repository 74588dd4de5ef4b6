"""Calls like an earlier one run its program, and no other call does."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from dtensor import UNSHARDED
from dtensor.compiler.eager.calls import call
from dtensor.compiler.eager.repeated import repeated
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, placed

VALUES = np.arange(24, dtype=np.float32).reshape(6, 4)


def key(*args: Any, **kwargs: Any) -> Any:
    """The key of a call of one function, without its arrays."""
    found = repeated(jnp.sum, args, kwargs)
    return None if found is None else found[0]


def test_the_key_is_of_types_and_settings() -> None:
    x, y = placed(VALUES, MESH_2X4, "x"), placed(VALUES + 1, MESH_2X4, "x")
    assert key(x, axis=0) == key(y, axis=0)
    others = [
        key(x, axis=1),
        key(x, axis=False),
        key(x, axis=(0,)),
        key(x, 0),
        key(x, "axis", 0),
        key(x, keepdims=0),
        key(placed(VALUES, MESH_2X4, UNSHARDED, "y"), axis=0),
        key(placed(VALUES.astype(np.int32), MESH_2X4, "x"), axis=0),
        key(placed(VALUES, MESH_3X2, "x"), axis=0),
        repeated(jnp.prod, (x,), {"axis": 0})[0],  # type: ignore[index]
    ]
    assert None not in others
    assert len({key(x, axis=0), *others}) == len(others) + 1


@pytest.mark.parametrize(
    "args",
    [(0.0,), (-0.0,), ([0],), ((True,),), (np.float32(1),), (np.ones(2),), (np.dtype("int8"),)],
    ids=repr,
)
def test_other_arguments_have_none(args: Any) -> None:
    assert key(placed(VALUES, MESH_2X4, "x"), *args) is None
    assert key(placed(VALUES, MESH_2X4, "x"), a=args[0]) is None


def test_calls_without_a_dtensor_have_none() -> None:
    assert key(3, axis=0) is None
    assert key(dtensor.DVariable(placed(VALUES, MESH_2X4, "x"))) is None


def test_arrays_by_keyword_in_another_order() -> None:
    x, y = placed(VALUES, MESH_2X4, "x"), placed(VALUES * 3, MESH_2X4, "x")

    def less(p: Any, q: Any) -> Any:
        return p - q

    for _ in range(2):
        assert_same(call(less, (), {"q": y, "p": x}, "less"), VALUES - VALUES * 3)
        assert_same(call(less, (), {"p": x, "q": y}, "less"), VALUES - VALUES * 3)


def test_arrays_by_keyword_after_the_same_one_twice() -> None:
    x, y = placed(VALUES, MESH_2X4, "x"), placed(VALUES * 3, MESH_2X4, "x")

    def less(p: Any, q: Any) -> Any:
        return p - q

    assert_same(call(less, (), {"q": x, "p": x}, "less"), VALUES * 0)
    assert_same(call(less, (), {"q": y, "p": x}, "less"), VALUES - VALUES * 3)


def test_numbers_are_not_settings_where_arrays_may_stand() -> None:
    x = placed(VALUES, MESH_2X4, "x")
    for number in (1, 2, True, 3):
        assert_same(dnp.add(x, number), VALUES + number)
        assert_same(dnp.where(x > 3, x, number), np.where(VALUES > 3, VALUES, number))


def test_settings_of_equal_values_and_other_kinds() -> None:
    x = placed(VALUES, MESH_2X4, "x")
    for _ in range(2):
        assert_same(dnp.sum(x, axis=0), VALUES.sum(axis=0))
        assert_same(dnp.sum(x, 1), VALUES.sum(1))
        assert_same(dnp.sum(x, axis=(0, 1), keepdims=True), VALUES.sum(keepdims=True))
        assert_same(dnp.sum(x, keepdims=False), VALUES.sum())
        assert_same(dnp.transpose(x, (1, 0)), VALUES.T)
        assert_same(np.sum(x, axis=1), VALUES.sum(axis=1))
        assert_same(x.sum(axis=1), VALUES.sum(axis=1))


def test_a_wrong_setting_stays_an_error() -> None:
    x = placed(VALUES, MESH_2X4, "x")
    for _ in range(2):
        with pytest.raises(ValueError, match="out of bounds"):
            dnp.sum(x, axis=2)
