"""What is written otherwise for XLA's CPU code."""

import re

import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.client import create_mesh
from dtensor.runtime.executable import Executable
from tests.py.runtime.programs import program

EXCHANGE = """
module {{
  func.func public @main(%a: tensor<{rows}x24xf32>) -> tensor<{more}x6xf32> {{
    %b = stablehlo.negate %a : tensor<{rows}x24xf32>
    %c = "stablehlo.all_to_all"(%b) <{{split_dimension = 1 : i64, concat_dimension = 0 : i64,
      split_count = 4 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}>
      : (tensor<{rows}x24xf32>) -> tensor<{more}x6xf32>
    return %c : tensor<{more}x6xf32>
  }}
}}"""


@pytest.mark.parametrize(("rows", "calls"), [(5, 4), (200, 0)])
def test_small_operands_of_an_exchange_are_cut_by_calls_of_one_function(
    rows: int, calls: int
) -> None:
    mesh = create_mesh([("x", 4)])
    before, after = Layout(["x", UNSHARDED], mesh), Layout([UNSHARDED, "x"], mesh)
    shape = (4 * rows, 24)
    text = EXCHANGE.format(rows=rows, more=4 * rows)
    step = Executable(program(text, mesh, [(shape, before)], [(shape, after)]))
    lowered, compiled = step.lowered.as_text(), step.as_text()
    assert lowered.count("call @dtensor_block") == calls
    assert lowered.count("func.func private @dtensor_block") == bool(calls)
    assert len(re.findall(r" call\(", compiled)) == calls  # and XLA did not inline them
    x = np.arange(rows * 96, dtype=np.float32).reshape(shape)
    (result,) = step.run(x)
    np.testing.assert_array_equal(np.asarray(result), -x)
