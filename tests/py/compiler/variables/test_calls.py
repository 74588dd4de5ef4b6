"""Variables as arguments of compiled functions, and closed over."""

import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor.numpy as dnp
from dtensor.compiler.api import jit
from dtensor.compiler.relayout import copy_to_mesh, relayout
from dtensor.compiler.variables.engine import DVariable
from dtensor.dialect.errors import CompileError, LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import DTensor
from tests.py.compiler.variables.support import (
    BOTH,
    COLUMNS,
    OTHER,
    ROWS,
    VALUES,
    WHOLE,
    scalar,
    traces_of,
    values,
    variable,
)


def test_an_argument_is_updated_by_the_call() -> None:
    v = variable()

    @jit
    def step(params: Any, x: Any, *, rate: Any) -> Any:
        y = (x @ params["w"]).sum()
        params["w"].assign_sub(rate * params["w"])
        return {"y": y, "w": params["w"]}

    result = step({"w": v}, VALUES.T, rate=0.5)
    # f32 sums of 8 and 256: 1e-5
    np.testing.assert_allclose(values(result["y"]), (VALUES.T @ VALUES).sum(), atol=1e-4)
    np.testing.assert_array_equal(values(v), VALUES / 2)
    np.testing.assert_array_equal(values(result["w"]), VALUES / 2)
    assert type(result["w"]) is DTensor
    assert v.value().layout == BOTH


def test_functions_of_numpy_take_variables_in_a_compiled_function() -> None:
    v = variable()
    for fn in (
        lambda: np.add(v, v),
        lambda: VALUES + v,
        lambda: np.concatenate([v, v])[: len(VALUES)] + v,
    ):
        np.testing.assert_array_equal(values(jit(fn)()), 2 * VALUES)
    assert jit(lambda: v.to_device(ROWS))().layout == ROWS


def test_an_index_of_several_parts_takes_variables() -> None:
    v = variable()
    row = DVariable(copy_to_mesh(np.array(1), Layout.replicated(v.mesh, 0)))
    for found in (v[row, 1], jit(lambda: v[row, 1])()):
        np.testing.assert_array_equal(values(found), VALUES[1, 1])


def test_one_program_serves_all_variables_of_a_type_and_all_values() -> None:
    double, traces = traces_of(lambda v: v.assign(2 * v, read_value=False))
    double = jit(double)
    first, second, other = variable(), variable(scale=3), variable(ROWS)
    for v in (first, second, first):
        double(v)
    assert len(traces) == 1
    double(other)
    assert len(traces) == 2
    np.testing.assert_array_equal(values(first), 4 * VALUES)
    np.testing.assert_array_equal(values(second), 6 * VALUES)
    np.testing.assert_array_equal(values(other), 2 * VALUES)
    assert (first.value().layout, other.value().layout) == (BOTH, ROWS)


def test_an_array_of_the_same_type_is_no_variable() -> None:
    add = jit(lambda v: v + 1)
    v = variable()
    for argument in (v, v.value(), v):
        np.testing.assert_array_equal(values(add(argument)), VALUES + 1)
    assert len(add._programs) == 2


@pytest.mark.parametrize("layout", [BOTH, ROWS, COLUMNS, WHOLE], ids=["xy", "x_", "_y", "__"])
def test_the_new_value_has_the_layout_of_the_variable(layout: Layout) -> None:
    v = variable(layout)

    @jit
    def step(v: Any, x: Any) -> None:
        v.assign(relayout(x + v, COLUMNS))

    step(v, copy_to_mesh(VALUES, ROWS))
    assert v.value().layout == layout
    np.testing.assert_array_equal(values(v), 2 * VALUES)


def test_a_variable_passed_twice_is_one() -> None:
    @jit
    def step(a: Any, b: Any) -> Any:
        before = a + 0
        b.assign_add(1.0)
        return a - before

    a, b = scalar(5, "a"), scalar(7, "b")
    assert (float(step(a, b)), a.numpy(), b.numpy()) == (0, 5, 8)
    assert (float(step(a, a)), a.numpy()) == (1, 6)
    assert (float(step(a, b)), a.numpy(), b.numpy()) == (0, 6, 9)


def test_a_variable_passed_and_closed_over_is_one() -> None:
    v, other = scalar(5, "v"), scalar(7, "other")

    @jit
    def step(a: Any) -> Any:
        a.assign_add(1.0)
        return v + 0

    assert (float(step(v)), v.numpy()) == (6, 6)
    assert (float(step(other)), v.numpy(), other.numpy()) == (6, 6, 8)
    assert (float(step(v)), v.numpy()) == (7, 7)
    assert len(step._programs) == 1


def test_static_arguments_and_keywords_beside_variables() -> None:
    def step(n: int, v: Any, x: Any, *, mode: str) -> Any:
        v.assign(v * n)
        return v + x if mode == "add" else v - x

    compiled = jit(step, static_argnums=0, static_argnames="mode")
    v = scalar(2)
    assert float(compiled(3, v, 1.0, mode="add")) == 7
    assert float(compiled(2, v, x=1.0, mode="sub")) == 11
    with pytest.raises(ValueError, match="static argument 0 of type DVariable is not hashable"):
        compiled(v, v, 1.0, mode="add")


def test_a_variable_closed_over_is_no_constant_and_is_updated() -> None:
    v = variable()

    def fn(x: Any) -> Any:
        v.assign_add(x)
        return v.value().sum()

    counted, traces = traces_of(fn)
    step = jit(counted)
    for n in range(1, 4):
        # f32 sums of 128 elements: 1e-4
        np.testing.assert_allclose(values(step(1.0)), (VALUES + n).sum(), rtol=1e-4)
    v.assign(copy_to_mesh(0 * VALUES, ROWS))
    np.testing.assert_allclose(values(step(2.0)), 2 * VALUES.size, rtol=1e-4)
    assert len(traces) == 2  # to find the variable, and to pass it
    lowered = step.lower(1.0)
    assert [info.name for info in lowered.args] == ["variables['w']", "x"]
    assert "dense<" not in lowered.as_text("dtensor-propagate").replace("dense<0", "")


def test_a_function_without_variables_is_traced_once_and_called_as_before() -> None:
    variable()
    double, traces = traces_of(lambda x: 2 * x)
    double = jit(double)
    x = copy_to_mesh(VALUES, BOTH)
    np.testing.assert_array_equal(values(double(x)), 2 * VALUES)
    assert len(traces) == 1
    assert type(next(iter(double._programs.values()))).__name__ == "function"


def test_a_value_before_and_after_an_assignment_in_inner_functions() -> None:
    v = scalar(3)

    @jax.jit
    def inner(x: Any) -> Any:
        return x * v

    def body(carry: Any, x: Any) -> Any:
        return carry + v * x, None

    @jit
    def step(x: Any) -> Any:
        first = inner(x)
        (second, _) = jax.lax.scan(body, x, jnp.ones(2))
        v.assign_add(1.0)
        third = inner(x)
        (fourth, _) = jax.lax.scan(body, x, jnp.ones(2))
        return first, second, third, fourth

    assert list(map(float, step(1.0))) == [3, 7, 4, 9]
    assert list(map(float, step(1.0))) == [4, 9, 5, 11]
    with pytest.raises(CompileError, match="variable 's' is read while jax traces a function"):
        inner(1.0)
    with jax.disable_jit():
        assert float(inner(1.0)) == 5


def test_a_mesh_known_from_a_variable_alone() -> None:
    v = scalar(3)
    assert float(jit(lambda x: v + x)(1.0)) == 4
    elsewhere = DVariable(1.0, layout=Layout([], OTHER), name="far")
    with pytest.raises(LayoutError, match=r"variable 'far' lies on mesh.x=8., and the program of"):
        jit(lambda x: elsewhere + x)(copy_to_mesh(VALUES, ROWS))
    with pytest.raises(LayoutError, match="mesh"):
        jit(lambda a, b: a + b)(v, elsewhere)


def test_replaced_variables_are_dropped_and_the_new_ones_found() -> None:
    state = {"v": scalar(1)}
    step = jit(lambda x: state["v"].assign_add(x).value())
    assert float(step(1.0)) == 2
    old = weakref.ref(state["v"])
    state["v"] = scalar(10)
    gc.collect()
    assert old() is None
    assert float(step(1.0)) == 11
    assert state["v"].numpy() == 11


def test_a_step_inside_a_step_shares_the_variables() -> None:
    v, w = scalar(2, "v"), scalar(5, "w")

    @jit
    def inner(a: Any) -> Any:
        a.assign(a * 3)
        return w.assign_add(a)

    inner(v)
    assert (v.numpy(), w.numpy()) == (6, 11)

    @jit
    def outer(x: Any) -> Any:
        inner(v)
        return inner(v) + x

    assert float(outer(1.0)) == 11 + 18 + 54 + 1
    assert (v.numpy(), w.numpy()) == (54, 83)


def test_functions_of_arrays_take_variables() -> None:
    v = variable()

    @jit
    def everything(x: Any) -> Any:
        return [
            jnp.sum(v),
            jnp.einsum("ij,ij->", v, x),
            x @ v.T,
            v.at[0].set(0).sum(),
            v.reshape(-1)[3],
            jnp.where(v > 0, v, 0).sum(),
            relayout(v, COLUMNS).sum(),
            dnp.sum(v),
            np.sum(v),
            v.T.astype(jnp.int32).sum(),
            dnp.add(v, x).sum(),
        ]

    expected = [
        VALUES.sum(),
        (VALUES * VALUES).sum(),
        VALUES @ VALUES.T,
        VALUES[1:].sum(),
        VALUES[0, 3],
        np.where(VALUES > 0, VALUES, 0).sum(),
        VALUES.sum(),
        VALUES.sum(),
        VALUES.sum(),
        VALUES.astype(int).sum(),
        2 * VALUES.sum(),
    ]
    for result, value in zip(everything(copy_to_mesh(VALUES, BOTH)), expected, strict=True):
        np.testing.assert_allclose(values(result), value, rtol=1e-5, atol=1e-4)
