"""What goes wrong with variables in compiled functions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import JitFunction, jit
from dtensor.compiler.variables.engine import DVariable
from dtensor.dialect.errors import CompileError, LayoutError
from tests.py.compiler.variables.support import VALUES, scalar, values, variable


def test_wrong_values_are_errors_and_change_nothing() -> None:
    v = variable()
    held = v._held
    for value, error, message in [
        (lambda x: x[:2], LayoutError, r"variable 'v' has the shape \[8, 16\], .* \[2, 16\]"),
        (lambda x: x.astype(jnp.int32), TypeError, "variable 'v' is of float32, .* of int32"),
        (lambda x: jnp.bfloat16(1) * x.astype(jnp.bfloat16), TypeError, "of bfloat16; convert"),
        (lambda x: None, TypeError, "has element type object, which devices cannot hold"),
    ]:

        def step(v: Any, x: Any, value: Any = value) -> None:
            v.assign(value(x))

        with pytest.raises(error, match=message):
            jit(lambda v, x: step(v, x))(v, VALUES)
    assert v._held is held


TRANSFORMS: dict[str, Any] = {
    "scan": lambda f, x: jax.lax.scan(lambda c, x: (c, f(x)), 0.0, jnp.ones(3)),
    "cond": lambda f, x: jax.lax.cond(x > 0, f, lambda x: x, x),
    "while": lambda f, x: jax.lax.while_loop(lambda x: x < 3, lambda x: f(x) + 1, x),
    "grad": lambda f, x: jax.grad(f)(x),
    "vmap": lambda f, x: jax.vmap(f)(jnp.ones(3)),
    "jit": lambda f, x: jax.jit(f)(x),
    "checkpoint": lambda f, x: jax.checkpoint(f)(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_assignment_inside_of_a_body_is_an_error(transform: Any) -> None:
    v = scalar(1)

    def body(x: Any) -> Any:
        v.assign(x)
        return x

    with pytest.raises(CompileError, match="variable 's' is assigned inside a function that jax"):
        jit(lambda x: transform(body, x))(1.0)
    assert v.numpy() == 1


def test_a_function_that_fails_leaves_the_variables() -> None:
    v = scalar(1)

    def step(x: Any) -> Any:
        v.assign(x)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        jit(step)(2.0)
    assert v.numpy() == 1
    assert float(v + 1) == 2


def test_a_run_that_fails_says_whether_the_values_are_lost(monkeypatch: Any) -> None:
    v = variable()
    step: JitFunction = jit(lambda v: v.assign_add(1.0, read_value=False))
    step(v)
    (call,) = step._programs.values()
    compiled = step.lower(v).compile()
    run = compiled.executable._start

    def failing_before(*arrays: Any) -> Any:
        raise MemoryError("no room")

    def failing_after(*arrays: Any) -> Any:
        run(*arrays)
        raise MemoryError("no room")

    monkeypatch.setattr(compiled.executable, "_start", failing_before)
    with pytest.raises(MemoryError):
        compiled(v)
    np.testing.assert_array_equal(values(v + 0), VALUES + 1)
    compiled._calls.clear()
    monkeypatch.setattr(compiled.executable, "_start", failing_after)
    with pytest.raises(MemoryError):
        compiled(v)
    with pytest.raises(RuntimeError, match="value of variable 'w' is lost"):
        v.value()
    # XLA may leave the buffer that NumPy looks into and take the others: that is lost too.
    v.assign(variable().value())
    seen = np.asarray(v._held.addressable_data(0))
    with pytest.raises(MemoryError):
        compiled(v)
    with pytest.raises(RuntimeError, match="value of variable 'w' is lost"):
        v.value()
    del call, seen


def test_a_stand_in_cannot_be_used_later() -> None:
    kept: list[Any] = []
    v = scalar(1)

    @jit
    def keep(v: Any) -> Any:
        kept.append(v)
        return v + 1

    keep(v)
    assert "traced" in repr(kept[0])
    with pytest.raises(RuntimeError, match=r"stood for argument v while dtensor.jit traced"):
        kept[0].value()
    with pytest.raises(RuntimeError, match="stood for argument v while"):
        jit(lambda x: x + kept[0])(1.0)


def test_other_variables_at_each_trace_are_an_error() -> None:
    pool = [scalar(n, f"v{n}") for n in range(20)]
    source = iter(pool)
    with pytest.raises(CompileError, match="uses other variables each time it is traced, such as"):
        jit(lambda x: x + next(source))(1.0)


def test_reading_a_number_while_tracing_is_jaxs_error() -> None:
    v = scalar(1)
    for read in (float, bool, np.asarray, DVariable.numpy):
        with pytest.raises(jax.errors.JAXTypeError):
            jit(lambda x: read(v) * x)(1.0)  # noqa: B023
    with pytest.raises(CompileError, match="is created while jax traces a function"):
        jit(lambda x: scalar(1) + x)(1.0)
