"""Constants whose data stand at the end of the file."""

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import dtensor

MODULE = """"dtensor.mesh"() {{sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>}} : () -> ()
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>, {type}, {type}) {{
  %b = stablehlo.constant dense_resource<{first}> : {type}
  %c = stablehlo.constant dense_resource<{second}> : {type}
  return %a, %b, %c : tensor<2xf32>, {type}, {type}
}}
{{-#
  dialect_resources: {{
    builtin: {{
      torch_tensor_1: "{ones}",
      "a name": "{steps}"
    }}
  }}
#-}}
"""


def module(type_: str, value: np.ndarray[Any, Any], second: str = '"a name"') -> str:
    ones, steps = (
        f"0x04000000{data.tobytes().hex().upper()}" for data in (np.ones_like(value), value)
    )
    return MODULE.format(type=type_, first="torch_tensor_1", second=second, ones=ones, steps=steps)


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("f32", np.float32),
        ("bf16", ml_dtypes.bfloat16),
        ("i1", np.bool_),
        ("i8", np.int8),
        ("ui16", np.uint16),
        ("complex<f32>", np.complex64),
        ("f64", np.float64),
    ],
)
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 5)])
def test_data_of_each_element_type(element: str, dtype: Any, shape: tuple[int, ...]) -> None:
    value = (np.arange(np.prod(shape)) % 3).reshape(shape).astype(dtype)
    text = module(f"tensor<{'x'.join(map(str, shape))}x{element}>", value)
    with jax.enable_x64(element == "f64"):
        _, ones, steps = dtensor.compile_mlir(text)(np.zeros(2, np.float32))
        np.testing.assert_array_equal(ones.to_jax(), np.ones_like(value))
        np.testing.assert_array_equal(steps.to_jax(), value)


def test_data_that_are_not_there() -> None:
    text = module("tensor<3xf32>", np.zeros(3, np.float32), second="elided")
    with pytest.raises(
        dtensor.CompileError,
        match=r"<string>:4:27: the data of this constant, resource elided, are not in the file; "
        r"write it with its dialect_resources, none left out",
    ):
        dtensor.compile_mlir(text)


def test_a_comment_needs_no_data() -> None:
    text = "// as in dense_resource<weights>\n" + module("tensor<3xf32>", np.ones(3, np.float32))
    dtensor.compile_mlir(text)


def test_data_of_another_size() -> None:
    text = module("tensor<3xf32>", np.zeros(5, np.float32))
    with pytest.raises(dtensor.CompileError, match=r"<string>:3:27: elements hex data size"):
        dtensor.compile_mlir(text)
