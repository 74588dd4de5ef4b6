"""Checks of values that raise from Python, as libraries write them: nothing is gathered."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dtensor
from dtensor import CompileOptions, Layout

MESH = dtensor.create_mesh([("x", 8)])


def checked(x: Any) -> Any:
    """Stops with an error where a value is not finite."""

    def stop(bad: Any) -> Any:
        if bad:
            raise FloatingPointError
        return np.zeros(x.shape, x.dtype)

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    bad = jnp.any(~jnp.isfinite(x))

    def fail() -> Any:
        given = jax.pure_callback(stop, shape, bad)
        return jax.pure_callback(lambda given, _: given, shape, given, bad)

    return lax.cond(bad, fail, lambda: x * 2)


def test_a_check_is_no_fallback() -> None:
    x = np.arange(16, dtype=np.float32)
    layout, strict = Layout(["x"], MESH), CompileOptions(strict=True)
    step = dtensor.jit(checked, in_layouts=layout, out_layouts=layout, options=strict)
    compiled = step.lower(x).compile()
    assert [c.kind for c in compiled.collectives] == ["all_reduce"]
    np.testing.assert_array_equal(np.asarray(compiled(x).to_jax()), x * 2)
