"""What the work of a plan takes on one device, against the same by hand."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.passes.cost.machines import MACHINES

H100 = MACHINES["h100"]
READ = H100.memory_bytes_per_second
BF16 = jnp.bfloat16
Specs = tuple[list[Any], ...]


def planned(
    function: Callable[..., Any],
    arrays: tuple[jax.ShapeDtypeStruct, ...],
    specs: Specs,
    result: list[Any],
    axes: tuple[tuple[str, int], ...] = (("data", 8),),
) -> tuple[float, float]:
    """Seconds of the plan for H100s, and those of communication."""
    mesh = dtensor.Mesh.abstract(axes)
    layouts = tuple(dtensor.Layout(spec, mesh) for spec in specs)
    lowered = dtensor.jit(
        function,
        in_layouts=layouts,
        out_layouts=dtensor.Layout(result, mesh),
        options=dtensor.CompileOptions(machine=H100),
    ).lower(*arrays)
    (plan,) = [r for r in lowered.ledger["records"] if r["kind"] == "plan"]
    return plan["seconds"], plan["communication"]


def array(*shape: int, dtype: Any = BF16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def product(a: Any, b: Any) -> Any:
    return a @ b


@pytest.mark.parametrize(
    ("dtype", "precision", "peak"),
    [
        (jnp.bfloat16, None, 989.4e12),
        (jnp.float32, None, 494.7e12),
        (jnp.float32, "highest", 66.9e12),
        (jnp.float32, "F32_F32_F32", 66.9e12),
        (jnp.float32, "BF16_BF16_F32", 989.4e12),
        (jnp.float64, None, 66.9e12),
        (jnp.int8, None, 1978.9e12),
        (jnp.int4, None, 1978.9e12),
        (jnp.float8_e4m3fn, None, 1978.9e12),
        (jnp.complex64, None, 494.7e12 / 4),
    ],
)
def test_products_go_at_the_speed_of_their_elements(
    dtype: Any, precision: Any, peak: float
) -> None:
    n = 8192

    def multiply(a: Any, b: Any) -> Any:
        dims = (((1,), (0,)), ((), ()))
        made = jnp.float32 if dtype == jnp.float8_e4m3fn else None
        return jax.lax.dot_general(a, b, dims, precision, preferred_element_type=made)

    with jax.enable_x64(dtype == jnp.float64):
        a = array(n, n, dtype=dtype)
        seconds, _ = planned(multiply, (a, a), (["data", None], [None, None]), ["data", None])
    assert seconds == pytest.approx(2 * n**3 / 8 / peak)


@pytest.mark.parametrize("name", ["v4", "v5e", "v5p", "v6e"])
def test_products_of_f32_go_as_bfloat16_on_tpus(name: str) -> None:
    machine = MACHINES[name]
    assert machine.matmul_peak("f32") == machine.matmul_peak("bf16")
    assert machine.matmul_peak("f32_highest") == pytest.approx(machine.matmul_peak("bf16") / 6)


def test_what_is_no_product_goes_at_the_speed_of_vectors() -> None:
    x = array(65536, 512, dtype=jnp.float32)
    slow = dtensor.Machine("slow", H100.levels, H100.matmul_flops, 1e9, READ, 10**11)
    mesh = dtensor.Mesh.abstract([("data", 8)])
    rows = dtensor.Layout(["data", None], mesh)
    step = dtensor.jit(jnp.exp, in_layouts=rows, options=dtensor.CompileOptions(machine=slow))
    (plan,) = [r for r in step.lower(x).ledger["records"] if r["kind"] == "plan"]
    assert plan["seconds"] == pytest.approx(65536 * 512 / 8 / 1e9)


def test_an_operand_that_is_whole_is_read_whole_by_every_device() -> None:
    x, w = array(8, 16384), array(16384, 4096)
    seconds, sent = planned(product, (x, w), (["data", None], [None, None]), ["data", None])
    assert sent == 0.0
    assert seconds == pytest.approx((16384 + 16384 * 4096 + 4096) * 2 / READ)
    seconds, sent = planned(product, (x, w), ([None, None], [None, "data"]), [None, "data"])
    assert sent == 0.0
    assert seconds == pytest.approx((8 * 16384 + 16384 * 4096 / 8 + 8 * 4096 / 8) * 2 / READ)


@pytest.mark.parametrize("rows", [50_000, 51_200])
def test_a_table_is_read_as_far_as_a_device_looks_up(rows: int) -> None:
    table, places = array(50_304, 8192), array(rows, dtype=jnp.int32)
    seconds, sent = planned(
        lambda t, i: t.at[i].get(mode="clip"),
        (table, places),
        ([None, None], ["data"]),
        ["data", None],
    )
    assert sent == 0.0
    assert seconds == pytest.approx(2 * rows / 8 * 8192 * 2 / READ, rel=0.01)


def test_a_value_that_is_read_twice_is_read_as_its_larger_shard() -> None:
    x = array(64, 1 << 20)

    def gram(x: Any) -> Any:
        return jnp.einsum("bd,cd->bc", x, x)

    seconds, sent = planned(gram, (x,), ([None, None],), [None, None])
    assert sent > 0.0  # each device reads some columns, and the parts are added up
    assert seconds - sent == pytest.approx(64 * (1 << 20) * 2 / 8 / READ, rel=0.01)


def test_products_read_transposes_and_slices_where_they_lie() -> None:
    x, w = array(8, 4096), array(4096, 4096)
    layouts, result = ([None, None], [None, None]), [None, None]
    plain, _ = planned(product, (x, w), layouts, result)
    turned, _ = planned(lambda x, w: x @ w.T, (x, w), layouts, result)
    assert turned == pytest.approx(plain)
    layers = array(16, 4096, 4096)

    def unrolled(x: Any, layers: Any) -> Any:
        for layer in range(16):
            x = x @ layers[layer]
        return x

    seconds, _ = planned(unrolled, (x, layers), ([None] * 2, [None] * 3), result)
    assert seconds < 16 * plain * 1.01


def test_weights_that_are_read_whole_are_worth_less_than_a_small_message() -> None:
    x, up, down = array(8, 8192), array(8192, 28672), array(28672, 8192)
    found = dtensor.auto_layouts(
        lambda x, up, down: jax.nn.silu(x @ up) @ down,
        *(x, up, down),
        mesh=dtensor.Mesh.abstract([("model", 8)]),
        options=dtensor.CompileOptions(machine=H100),
    )
    _, up_layout, down_layout = found.in_layouts
    assert up_layout.short() == '[{}, {"model"}]'
    assert down_layout.short() == '[{"model"}, {}]'


@pytest.mark.parametrize("devices", [8, 512])
def test_what_is_written_into_zeros_is_written_by_shards(devices: int) -> None:
    rows, columns = 64 * devices, 4096

    def scatter(x: Any, t: Any) -> Any:
        return jnp.sum(jnp.take_along_axis(x, t[:, None], -1))

    seconds, sent = planned(
        jax.grad(scatter),
        (array(rows, columns, dtype=jnp.float32), array(rows, dtype=jnp.int32)),
        (["data", None], ["data"]),
        ["data", None],
        (("data", devices),),
    )
    shard = 64 * columns * 4 / READ
    assert sent == 0.0
    assert 2 * shard <= seconds < 2.1 * shard  # the zeros, and the result


@pytest.mark.parametrize(("algorithm", "products"), [("BF16_BF16_F32", 1), ("BF16_BF16_F32_X6", 6)])
def test_an_algorithm_of_several_products_takes_their_time(algorithm: str, products: int) -> None:
    n = 8192
    a = array(n, n, dtype=jnp.float32)

    def multiply(a: Any, b: Any) -> Any:
        return jax.lax.dot_general(a, b, (((1,), (0,)), ((), ())), algorithm)

    seconds, _ = planned(multiply, (a, a), (["data", None], [None, None]), ["data", None])
    assert seconds == pytest.approx(products * 2 * n**3 / 8 / 989.4e12)


def test_a_long_sum_so_far_is_read_and_written_once() -> None:
    x = array(1 << 20, 64, dtype=jnp.float32)

    def cumulate(x: Any) -> Any:
        n = x.shape[0]
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, (n, 1), (1, 1), ((n - 1, 0), (0, 0)))

    seconds, sent = planned(cumulate, (x,), ([None, "data"],), [None, "data"])
    assert sent == 0.0
    assert seconds == pytest.approx(2 * (1 << 20) * 8 * 4 / READ)
