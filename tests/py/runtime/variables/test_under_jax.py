"""Variables in functions that jax transforms, and the rest."""

import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.relayout import copy_to_mesh
from dtensor.compiler.variables.engine import DVariable, enable_save_as_bf16
from dtensor.dialect.errors import CompileError, LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import DTensor
from tests.py.runtime.clients.launching import run_jax_processes
from tests.py.runtime.variables.support import BOTH, MESH, VALUES, WHOLE, values, variable


def test_to_jax_a_variable_is_its_value() -> None:
    v = variable(BOTH)
    (leaf,) = jax.tree.leaves({"w": v})
    np.testing.assert_array_equal(leaf, VALUES)
    doubled = jax.tree.map(lambda x: 2 * x, {"w": v})["w"]
    assert (type(doubled), doubled.layout) == (DTensor, BOTH)
    (kept,) = jax.tree.leaves([v], is_leaf=dtensor.is_dtensor)
    assert kept is v


def test_gradients_of_a_function_of_a_variable() -> None:
    v, x = variable(BOTH), jnp.arange(16, dtype=jnp.float32)

    def loss(v: Any) -> Any:
        return jnp.sum((v.value() @ x) ** 2) + jnp.sum(v * v.read_value()) + jnp.sum(v[0])

    for gradient in (jax.grad(loss)(v), jax.jit(jax.grad(loss))(v)):
        expected = 2 * np.outer(VALUES @ np.asarray(x), x) + 2 * VALUES
        expected[0] += 1
        # f32 sums of 16: 1e-5
        np.testing.assert_allclose(values(gradient), expected, rtol=1e-5, atol=1e-5)
    by_value = jax.grad(lambda w: jnp.sum(w**2))(v.value())
    np.testing.assert_allclose(values(by_value), 2 * VALUES, rtol=1e-6)
    closed_over = jax.grad(lambda x: jnp.sum(v @ x))(x)  # a constant of this call
    np.testing.assert_allclose(closed_over, VALUES.sum(0), rtol=1e-5, atol=1e-5)


def test_jax_functions_take_a_variable_that_jax_traces() -> None:
    v = variable(WHOLE)
    gradient = jax.grad(lambda v: jax.nn.relu(v.value()).sum() + jnp.sort(v).sum())(v)
    np.testing.assert_array_equal(values(gradient), (VALUES > 0) + 1)
    shifted = jax.vmap(lambda x: x + v.value().sum() + jnp.max(v))(jnp.ones(3))
    np.testing.assert_allclose(shifted, 1 + VALUES.sum() + VALUES.max(), rtol=1e-6)


def test_jit_vmap_and_scan_take_variables() -> None:
    v = variable(WHOLE)
    sums = jax.vmap(lambda row: row.value().sum())(v)
    np.testing.assert_allclose(np.asarray(jax.tree.leaves(sums)[0]), VALUES.sum(1), rtol=1e-5)
    double = jax.jit(lambda v: 2 * v.value())
    np.testing.assert_array_equal(double(v), 2 * VALUES)
    v.assign(copy_to_mesh(3 * VALUES, WHOLE))
    np.testing.assert_array_equal(double(v), 6 * VALUES)
    with pytest.raises(LayoutError, match="maps over a variable"):
        jax.vmap(lambda row: (row.layout, row.sum())[1])(v)


TRANSFORMS: dict[str, Any] = {
    "jit": lambda f: jax.jit(f)(jnp.float32(1)),
    "grad": lambda f: jax.grad(f)(jnp.float32(1)),
    "vmap": lambda f: jax.vmap(f)(jnp.ones(3)),
    "scan": lambda f: jax.lax.scan(lambda c, x: (c, f(x)), 0.0, jnp.ones(3)),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_assignment_while_jax_traces_is_an_error(transform: Any) -> None:
    v = DVariable(1.0, layout=Layout([], MESH), name="w")
    for method in ("assign", "assign_add", "assign_sub"):

        def function(x: Any, method: str = method) -> Any:
            getattr(v, method)(x)
            return x

        with pytest.raises(CompileError, match="variable 'w' is assigned while jax traces"):
            transform(function)
    assert v.numpy() == 1.0


@pytest.mark.parametrize("transform", [jax.jit, jax.grad], ids=["jit", "grad"])
def test_an_argument_of_a_jax_function_cannot_be_assigned(transform: Any) -> None:
    v = DVariable(1.0, layout=Layout([], MESH))
    with pytest.raises(CompileError, match="can be read but not assigned"):
        transform(lambda v: v.assign(2.0).value())(v)


@pytest.mark.parametrize("transform", ["jit", "scan"])
def test_a_value_that_a_program_would_keep_for_good_is_an_error(transform: str) -> None:
    v = DVariable(1.0, layout=Layout([], MESH), name="w")
    with pytest.raises(CompileError, match="variable 'w' is read while jax traces a function"):
        TRANSFORMS[transform](lambda x: x * v)


def test_creation_in_a_traced_function_is_an_error() -> None:
    with pytest.raises(CompileError, match="is created while jax traces a function"):
        jax.jit(lambda x: (DVariable(1.0, layout=Layout([], MESH)), x)[1])(1.0)


def test_saving_as_bfloat16_is_for_float32() -> None:
    weight, count = variable(), DVariable(3, layout=Layout([], MESH), name="count")
    assert not weight.save_as_bf16
    enable_save_as_bf16([weight, count])
    assert (weight.save_as_bf16, count.save_as_bf16) == (True, False)
    with pytest.raises(TypeError, match="variable 'count' is of int32; only float32"):
        count.save_as_bf16 = True
    weight.save_as_bf16 = False
    with pytest.raises(TypeError, match="expected DVariables, got DTensor"):
        enable_save_as_bf16([weight.value()])


def test_copies_are_other_variables_and_there_is_no_pickle() -> None:
    v = variable(trainable=False)
    v.save_as_bf16 = True
    for copied in (copy.copy(v), copy.deepcopy({"w": v})["w"]):
        copied.assign_add(1)
        assert (copied.name, copied.trainable, copied.save_as_bf16) == ("w", False, True)
        assert copied.layout == BOTH
    np.testing.assert_array_equal(values(v), VALUES)
    with pytest.raises(TypeError, match="variable 'w' cannot be pickled; save its value"):
        pickle.dumps(v)


@pytest.mark.slow
def test_two_processes_update_one_variable() -> None:
    child = Path(__file__).with_name("in_two_processes.py")
    for process in run_jax_processes(child).values():
        assert process.status == 0, process.err
        assert "right" in process.out


def test_other_threads_may_read() -> None:
    v, found = variable(WHOLE), []
    thread = threading.Thread(target=lambda: found.append(v.numpy()))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], VALUES)


def test_what_stands_in_for_a_variable_while_it_is_traced_holds_no_value() -> None:
    v = variable()
    v.check_usable()
    traced = v.stand_in("argument w")
    assert (traced.shape, traced.dtype, traced.layout) == (v.shape, v.dtype, v.layout)
    with pytest.raises(RuntimeError, match=r"stood for argument argument w while dtensor\.jit"):
        traced.check_usable()


@pytest.mark.parametrize("name", ["T", "mT", "real", "imag"])
def test_views_of_a_variable_are_those_of_its_value(name: str) -> None:
    expected = getattr(jnp.asarray(VALUES), name)
    np.testing.assert_array_equal(values(getattr(variable(), name)), expected)


def test_at_gives_a_changed_copy_and_leaves_the_variable() -> None:
    v = variable()
    changed = v.at[1].set(7.0)
    assert (values(changed)[1] == 7).all()
    np.testing.assert_array_equal(values(v.value()), VALUES)
