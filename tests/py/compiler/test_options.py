"""Options of a compilation."""

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np
import pytest

import dtensor
from dtensor.compiler.options import CompileOptions
from dtensor.dialect.errors import CompileError


def test_options_are_values() -> None:
    assert CompileOptions(strict=True) == CompileOptions(strict=True)
    assert len({CompileOptions(), CompileOptions(), CompileOptions(strict=True)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        CompileOptions().strict = True  # type: ignore[misc]


def test_names_of_passes_are_a_list_too() -> None:
    options = CompileOptions(print_ir_after=["dtensor-propagate"])  # type: ignore[arg-type]
    assert hash(options) == hash(CompileOptions(print_ir_after=("dtensor-propagate",)))


def test_values_that_mean_nothing_are_refused() -> None:
    with pytest.raises(
        CompileError, match="max_bytes_per_device is 0; it must be a positive number, or None"
    ):
        CompileOptions(max_bytes_per_device=0)
    with pytest.raises(CompileError, match="reduce_dtype is 'int8'; it must be one of float32"):
        CompileOptions(reduce_dtype="int8")
    with pytest.raises(
        CompileError, match="effort is 'slow'; it must be one of fast, normal, best"
    ):
        CompileOptions(effort="slow")  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="must be a tuple of pass names"):
        CompileOptions(print_ir_after="dtensor-import")  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    whole: Any = np.int64(600)
    real: Any = np.float32(0.5)
    assert CompileOptions(max_bytes_per_device=whole).max_bytes_per_device == 600
    assert dtensor.budget(max_bytes=real).max_bytes == 0.5
    mesh = dtensor.Mesh.abstract([("x", 2)])
    assert dtensor.Layout([(np.int64(3), "x")], mesh) == dtensor.Layout([(3, "x")], mesh)
    for refused in (np.int64(0), np.array([1]), "1", True):
        with pytest.raises(CompileError, match="max_bytes_per_device"):
            CompileOptions(max_bytes_per_device=refused)  # type: ignore[arg-type]


def test_options_of_a_function_in_another_one_are_warned_of() -> None:
    options = dtensor.CompileOptions(strict=True, budget=dtensor.budget(0))
    inner = dtensor.jit(lambda x: x * 2, options=options)
    outer = dtensor.jit(lambda x: inner(x) + 1, mesh=dtensor.Mesh.abstract([("x", 2)]))
    shape = jax.ShapeDtypeStruct((4,), np.float32)
    with pytest.warns(UserWarning, match="strict, budget of its options count for nothing there"):
        outer.lower(shape)
    plain = dtensor.jit(lambda x: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dtensor.jit(lambda x: plain(x) + 1, mesh=dtensor.Mesh.abstract([("x", 2)])).lower(shape)
