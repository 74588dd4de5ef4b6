"""Operations that are written as others, against whole numbers of Python."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import dtensor
from dtensor import Layout

MESH = dtensor.create_mesh([("x", 8)])
ROWS = Layout(["x", None], MESH)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_the_high_half_of_a_product(kind: str, bits: int) -> None:
    dtype: Any = np.dtype(f"{kind}{bits}")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    random = np.random.default_rng(bits)
    a, b = (random.integers(low, high, (16, 5), dtype, endpoint=True) for _ in range(2))
    a[0, :4], b[0, :4] = (low, high, low, high), (low, high, high, low)
    expected = (a.astype(object) * b.astype(object) >> bits).astype(dtype)
    with jax.enable_x64(True):
        multiply = dtensor.jit(lax.mulhi, in_layouts=(ROWS, ROWS), returns="jax")
        found = np.asarray(multiply(a, b))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.sweep
@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX", "DEFAULT"])
@pytest.mark.parametrize(
    ("element", "dtype"), [("i32", np.int32), ("f32", np.float32), ("i8", np.int8)]
)
def test_random_bits_of_any_type(algorithm: str, element: str, dtype: Any) -> None:
    def drawn(element: str) -> Any:
        program = f"""
        func.func @main(%a: tensor<2xui32>) -> tensor<16x3x{element}> {{
          %key = stablehlo.bitcast_convert %a : (tensor<2xui32>) -> tensor<ui64>
          %state = stablehlo.broadcast_in_dim %key, dims = [] : (tensor<ui64>) -> tensor<2xui64>
          %0, %1 = stablehlo.rng_bit_generator %state, algorithm = {algorithm}
            : (tensor<2xui64>) -> (tensor<2xui64>, tensor<16x3x{element}>)
          return %1 : tensor<16x3x{element}>
        }}
        """
        (bits,) = dtensor.compile_mlir(program, mesh=MESH, out_layouts=ROWS)(np.array([7, 9], "u4"))
        return np.asarray(bits.to_jax())

    found, expected = drawn(element), drawn(f"ui{np.dtype(dtype).itemsize * 8}")
    assert found.dtype == dtype
    assert np.unique(expected).size > 30
    np.testing.assert_array_equal(found.view(expected.dtype), expected)
