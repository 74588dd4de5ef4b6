"""Programs of whole arrays, which one CPU device runs for all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from dtensor import UNSHARDED, DTensor, Layout
from dtensor.compiler.eager.sharing import can_run_once, run_once
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, placed, whole
from tests.py.runtime.programs import program, sum_over_rows

WHOLE = Layout([UNSHARDED, UNSHARDED], MESH_3X2)
ROWS = Layout(["x", UNSHARDED], MESH_3X2)
DTYPES = [
    *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "int4", "uint4"),
    *("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "complex64"),
]


def body(op: str) -> str:
    """A module of one operation on 6x4 numbers."""
    return f"""
    module {{
      func.func public @main(%a: tensor<6x4xf32>) -> tensor<6x4xf32> {{
        {op}
        return %b : tensor<6x4xf32>
      }}
    }}"""


NEGATE = body("%b = stablehlo.negate %a : tensor<6x4xf32>")
WHICH_DEVICE = body(
    "%i = stablehlo.partition_id : tensor<ui32> "
    "%f = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32> "
    "%g = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<6x4xf32> "
    "%b = stablehlo.add %a, %g : tensor<6x4xf32>"
)
CALLBACK = body(
    "%b = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {api_version = 4 : i32, "
    "mhlo.backend_config = {index = 0 : ui64}} : (tensor<6x4xf32>) -> tensor<6x4xf32>"
)


def memory(x: DTensor) -> set[int]:
    """The addresses of the buffers."""
    return {shard.unsafe_buffer_pointer() for shard in x.unpack()}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (5, 3), (0, 3), (257, 129)])
def test_every_type_has_its_values_on_every_device(dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.arange(int(np.prod(shape))) % 7).reshape(shape).astype(jnp.dtype(dtype))
    got = placed(values, MESH_3X2).T
    assert got.dtype == values.dtype
    np.testing.assert_array_equal(whole(got), values.T)


def test_the_devices_share_one_memory() -> None:
    x = placed(np.arange(6.0, dtype=np.float32).reshape(2, 3), MESH_3X2)
    product = x @ x.T
    assert len(memory(product)) == 1
    assert product.layout == WHOLE


def test_arrays_of_no_arguments_share_too() -> None:
    with dtensor.default_mesh(MESH_3X2):
        ones = dnp.ones((4, 3))
    assert len(memory(ones)) == 1
    assert_same(ones, np.ones((4, 3)))


@pytest.mark.parametrize(
    ("text", "layout", "donated", "expected"),
    [
        (NEGATE, WHOLE, (), True),
        (NEGATE, WHOLE, (0,), False),
        (NEGATE.replace("6x4", "2x4"), ROWS, (), False),
        (WHICH_DEVICE, WHOLE, (), False),
        (CALLBACK, WHOLE, (), False),
        (sum_over_rows("[[0,1,2],[3,4,5]]", "2x3", "6x4xf32"), WHOLE, (), False),
    ],
    ids=["whole", "donated", "sharded", "partition_id", "callback", "collective"],
)
def test_what_can_run_once(text: str, layout: Layout, donated: Any, expected: bool) -> None:
    border = [((6, 4), layout)]
    assert can_run_once(program(text, MESH_3X2, border, border, donated)) is expected


def test_a_mesh_of_one_device_is_not_shared() -> None:
    mesh = dtensor.create_mesh([("x", 1)])
    border = [((6, 4), Layout([UNSHARDED, UNSHARDED], mesh))]
    assert not can_run_once(program(NEGATE, mesh, border, border))


def test_the_first_device_of_the_mesh_runs_it() -> None:
    mesh = dtensor.create_mesh([("x", 2)], devices=[5, 3])
    layout = Layout([UNSHARDED, UNSHARDED], mesh)
    border = [((6, 4), layout)]
    run = run_once(program(NEGATE, mesh, border, border), "negate", ["x"])
    x = placed(np.arange(24.0, dtype=np.float32).reshape(6, 4), mesh)
    (result,) = run(x.to_jax())
    assert [shard.device.id for shard in result.addressable_shards] == [5, 3]
    np.testing.assert_array_equal(np.asarray(result), -np.asarray(x))


def test_a_donated_array_is_not_written_over() -> None:
    # Six devices that add 1 in place to one memory would add up to 6.
    x = placed(np.zeros((64, 64), np.float32), MESH_3X2) + 1.0
    view = np.asarray(x.unpack()[0])
    step = dtensor.jit(lambda v: v + 1.0, donate_argnums=(0,))
    y = step(x)
    for _ in range(3):
        y = step(y)
    np.testing.assert_array_equal(whole(y), np.full((64, 64), 5.0))
    np.testing.assert_array_equal(view, np.ones((64, 64)))


def test_a_variable_of_a_shared_value_is_updated_once() -> None:
    variable = dtensor.DVariable(placed(np.zeros((64, 64), np.float32), MESH_3X2) + 1.0)

    @dtensor.jit
    def step() -> None:
        variable.assign_add(jnp.ones((64, 64)))

    for _ in range(3):
        step()
    np.testing.assert_array_equal(whole(variable.read_value()), np.full((64, 64), 4.0))


def test_a_traced_call_is_refused() -> None:
    x = placed(np.ones((2, 3), np.float32), MESH_3X2)
    x + x
    with pytest.raises(TypeError, match="pass it as an argument"):
        jax.jit(lambda: (x + x).to_jax())()


@pytest.mark.parametrize("size", [1, 2])
def test_without_jit(size: int) -> None:
    mesh = dtensor.create_mesh([("x", size)], devices=list(range(2, 2 + size)))
    x = placed(np.arange(6.0, dtype=np.float32).reshape(2, 3), mesh)
    with jax.disable_jit():
        y = x @ x.T
        total = dtensor.jit(lambda v: (v * 2.0).sum())(x)
    assert {shard.device.id for shard in y.to_jax().addressable_shards} == set(range(2, 2 + size))
    np.testing.assert_array_equal(whole(y), np.asarray([[5, 14], [14, 50]]))
    assert float(total) == 30


def test_a_nan_is_found_when_jax_looks_for_one() -> None:
    x = placed(-np.ones((6, 4), np.float32), MESH_3X2, UNSHARDED, UNSHARDED)
    split = placed(-np.ones((6, 4), np.float32), MESH_3X2, "x", UNSHARDED)
    for call, name in ((dnp.log, "log"), (dnp.frexp, "frexp"), (lambda x: x * np.nan, r"\*")):
        for array in (x, split):
            array = array * np.nan if call is dnp.frexp else array
            match = rf"^{name}: Invalid value \(nan\) encountered in sharded computation"
            with jax.debug_nans(True), pytest.raises(FloatingPointError, match=match):
                call(array)
    log = dtensor.jit(jnp.log)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"log: Invalid value \(nan"):
        log(placed(np.full((6, 4), np.nan, np.float32), MESH_3X2, "x", UNSHARDED))


def test_host_arrays_are_computed_without_jit_and_their_nans_found() -> None:
    log = dtensor.jit(jnp.log, in_layouts=dtensor.Layout(["x", "y"], MESH_3X2))
    ones = np.ones((6, 4), np.float32)
    with jax.disable_jit():
        first = log(ones)
    np.testing.assert_array_equal(first.to_jax(), 0 * ones)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        log(-ones)
    with jax.set_mesh(jax.make_mesh((3, 2), ("x", "y"), devices=jax.devices()[:6])):
        with jax.disable_jit():
            np.testing.assert_array_equal(log(first).to_jax(), -np.inf * ones)
        with jax.debug_infs(True), pytest.raises(FloatingPointError, match="inf"):
            log(first)


def test_no_transfer_is_seen_where_transfers_are_refused() -> None:
    x = placed(np.ones((6, 4), np.float32), MESH_3X2, UNSHARDED, UNSHARDED)
    with jax.transfer_guard("disallow"):
        doubled = x + x
    assert_same(doubled, np.full((6, 4), 2, np.float32))


def test_copies_that_are_asked_for_are_explicit_to_the_transfer_guard() -> None:
    values = np.arange(24, dtype=np.float32).reshape(6, 4)
    with jax.transfer_guard("disallow"):
        x = placed(values, MESH_3X2, "x", "y")
        moved = dtensor.relayout(x, layout(MESH_2X4, "y", "x"))  # its rows do not divide
        variable = dtensor.DVariable(values, layout=x.layout)
        data = dtensor.DTensorDataset(values, mesh=x.mesh, layouts=x.layout, global_batch_size=3)
        batches = list(data)
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device"):
            dtensor.jit(lambda a: a + 1, in_layouts=x.layout)(values)
    for same in (x, moved, variable.value()):
        assert_same(same, values)
    assert_same(batches, [values[:3], values[3:]])
    with jax.transfer_guard("disallow_explicit"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device"):
            placed(values, MESH_3X2, "x", "y")
