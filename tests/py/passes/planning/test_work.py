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
        (jnp.float64, None, 66.9e12),
        (jnp.int8, None, 1978.9e12),
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
