"""Programs of local shapes on eight virtual devices."""

from typing import Any

import jax
import numpy as np
import pytest

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.array import from_jax
from dtensor.runtime.client import create_mesh
from dtensor.runtime.executable import Executable
from dtensor.runtime.placement import named_sharding
from dtensor.runtime.transfer import place
from tests.py.runtime.programs import program, sum_over_rows

ADD_ONE = """
module {
  func.func public @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<2x3xf32>
    %b = stablehlo.add %a, %one : tensor<2x3xf32>
    return %b : tensor<2x3xf32>
  }
}"""


@pytest.mark.parametrize("order", [None, [3, 1, 0, 2, 7, 6, 5, 4]])
def test_collectives_follow_mesh_positions_in_any_device_order(order: list[int] | None) -> None:
    mesh = create_mesh([("x", 2), ("y", 4)], devices=order)
    layout = Layout([("x", "y"), UNSHARDED], mesh)
    text = sum_over_rows("[[0,1,2,3],[4,5,6,7]]", "2x4", "2x4xf32")
    step = Executable(program(text, mesh, [((16, 4), layout)], [((16, 4), layout)]))
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    (result,) = step.run(place(x, layout).to_jax())
    expected = np.repeat(2 * x.reshape(2, 4, 2, 4).sum(1, keepdims=True), 4, axis=1)
    np.testing.assert_array_equal(np.asarray(result), expected.reshape(16, 4))
    assert from_jax(result).layout == layout
    assert "all-reduce" in step.as_text()


def test_a_subset_of_the_devices() -> None:
    mesh = create_mesh([("x", 2), ("y", 2)], devices=[5, 2, 7, 0])
    layout = Layout([("x", "y"), UNSHARDED], mesh)
    text = sum_over_rows("[[0,1],[2,3]]", "2x2", "2x4xf32")
    step = Executable(program(text, mesh, [((8, 4), layout)], [((8, 4), layout)]))
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    (result,) = step.run(x)
    expected = np.repeat(2 * x.reshape(2, 2, 2, 4).sum(1, keepdims=True), 2, axis=1)
    np.testing.assert_array_equal(np.asarray(result), expected.reshape(8, 4))
    assert [d.id for d in result.sharding.mesh.devices.flat] == [5, 2, 7, 0]  # type: ignore[attr-defined]


def test_one_device() -> None:
    mesh = create_mesh([("x", 1)])
    layout = Layout(["x", UNSHARDED], mesh)
    step = Executable(program(ADD_ONE, mesh, [((2, 3), layout)], [((2, 3), layout)]))
    (result,) = step.run(np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(np.asarray(result), np.ones((2, 3)))
    assert from_jax(result, mesh).layout == layout


def test_parts_of_axes_split_dimensions() -> None:
    mesh = create_mesh([("x", 8)])
    major, minor = AxisRef("x", 1, 2), AxisRef("x", 2, 4)
    before, after = Layout([major, UNSHARDED], mesh), Layout([UNSHARDED, minor], mesh)
    text = """
    module {
      func.func public @main(%a: tensor<4x8xf32>) -> tensor<4x4xf32> {
        %b = stablehlo.slice %a [0:4, 0:4] : (tensor<4x8xf32>) -> tensor<4x4xf32>
        return %b : tensor<4x4xf32>
      }
    }"""
    step = Executable(program(text, mesh, [((8, 8), before)], [((4, 16), after)]))
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    tensor = place(x, before)
    np.testing.assert_array_equal(np.asarray(tensor.unpack()[3]), x[:4])
    np.testing.assert_array_equal(np.asarray(tensor.unpack()[4]), x[4:])
    (result,) = step.run(tensor.to_jax())
    assert from_jax(result).layout == after
    starts = [shard.index[1].start for shard in result.addressable_shards]
    assert starts == [0, 4, 8, 12, 0, 4, 8, 12]


def test_donated_buffers_are_reused() -> None:
    mesh = create_mesh([("x", 4)])
    layout = Layout(["x", UNSHARDED], mesh)
    step = Executable(program(ADD_ONE, mesh, [((8, 3), layout)], [((8, 3), layout)], donated=(0,)))
    (x,) = step.run(np.zeros((8, 3), np.float32))  # in memory of XLA's, which it can reuse
    before = x.addressable_shards[0].data.unsafe_buffer_pointer()
    (result,) = step.run(x)
    assert x.is_deleted()
    assert result.addressable_shards[0].data.unsafe_buffer_pointer() == before


def test_many_unblocked_steps_with_collectives_end() -> None:
    mesh = create_mesh([("x", 8)])
    layout = Layout(["x", UNSHARDED], mesh)
    text = sum_over_rows("[[0,1,2,3,4,5,6,7]]", "1x8", "2x4xf32")
    step = Executable(program(text, mesh, [((16, 4), layout)], [((16, 4), layout)]))
    x = place(np.zeros((16, 4), np.float32), layout).to_jax()
    results = [step.run(x)[0] for _ in range(300)]
    jax.block_until_ready(results)


def test_steps_that_are_traced_are_not_waited_for() -> None:
    # Of every so many steps with collectives one is waited for; a symbol of jax's is no result.
    mesh = create_mesh([("x", 8)])
    layout = Layout(["x", UNSHARDED], mesh)
    text = sum_over_rows("[[0,1,2,3,4,5,6,7]]", "1x8", "2x4xf32")
    step = Executable(program(text, mesh, [((16, 4), layout)], [((16, 4), layout)]))
    x = place(np.zeros((16, 4), np.float32), layout).to_jax()

    @jax.jit
    def steps(x: jax.Array) -> jax.Array:
        for _ in range(20):
            (x,) = step.run(x)
        return x

    np.testing.assert_array_equal(steps(x), np.zeros((16, 4), np.float32))


def test_ahead_of_time_stages_and_use_inside_jax_jit() -> None:
    mesh = create_mesh([("x", 4)])
    layout = Layout(["x", UNSHARDED], mesh)
    step = Executable(
        program(ADD_ONE, mesh, [((8, 3), layout)], [((8, 3), layout)]), name="my step"
    )
    assert "dtensor_my_step" in step.lowered.as_text()
    memory: Any = step.compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 2 * 3 * 4
    x = jax.device_put(np.ones((8, 3), np.float32), named_sharding(layout))
    outer = jax.jit(lambda a: step.run(a * 2)[0].sum())
    assert float(outer(x)) == 8 * 3 * 3


def test_a_collective_of_the_wrong_form_is_stopped_before_xla_aborts() -> None:
    mesh = create_mesh([("x", 4)])
    layout = Layout(["x", UNSHARDED], mesh)
    text = sum_over_rows("[[0,1,2,3]]", "1x4", "2x4xf32")
    text = text.replace("use_global_device_ids,", "")
    step = Executable(program(text, mesh, [((8, 4), layout)], [((8, 4), layout)]))
    with pytest.raises(AssertionError, match="all_reduce without global device ids"):
        step.run(np.zeros((8, 4), np.float32))
