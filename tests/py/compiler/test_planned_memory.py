"""Planned memory beside what XLA needs, and the causes one by one."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.dialect.context import make_context, parse_module
from dtensor.passes.functions import main_function
from dtensor.passes.graph import OpReader
from dtensor.passes.reports.kernels import Kernels
from tests.py.compiler.programs import compiled, main

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
WHOLE = dtensor.Layout([None, None], MESH)
ROWS = dtensor.Layout(["x", None], MESH)


def block(p: dict[str, jax.Array], h: jax.Array) -> jax.Array:
    """A layer of attention in 2 heads and one of tanh; `h` is batch x time x width."""
    mean = h.mean(-1, keepdims=True)
    n = (h - mean) * jax.lax.rsqrt(jnp.square(h - mean).mean(-1, keepdims=True) + 1e-5)
    q, k, v = jnp.einsum("btd,dchk->cbthk", n, p["qkv"])
    a = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k), -1)
    h = h + jnp.einsum("bhts,bshk,hkd->btd", a, v, p["o"])
    return h + jnp.tanh(h @ p["up"]) @ p["down"]


def loss(layers: Any, x: jax.Array, scanned: bool) -> jax.Array:
    if scanned:
        each = jax.checkpoint(lambda h, p: (block(p, h), None))
        return jnp.square(jax.lax.scan(each, x, layers)[0]).mean()
    for p in layers:
        x = block(p, x)
    return jnp.square(x).mean()


def step(layers: Any, m: Any, x: jax.Array, scanned: bool) -> tuple[Any, Any]:
    gradients = jax.grad(partial(loss, scanned=scanned))(layers, x)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, gradients)
    return jax.tree.map(lambda p, m: p - 0.1 * m, layers, m), m


@pytest.mark.sweep
@pytest.mark.parametrize(("scanned", "split"), [(False, False), (False, True), (True, True)])
def test_a_transformer_step_is_planned_within_a_tenth_of_what_xla_needs(
    scanned: bool, split: bool
) -> None:
    shapes = {"qkv": (32, 3, 2, 16), "o": (2, 16, 32), "up": (32, 96), "down": (96, 32)}
    heads: dict[str, list[Any]] = {
        "qkv": [None, None, "y", None] if split else [None] * 4,
        "o": [None] * 3,
        "up": [None, "y"] if split else [None, None],
        "down": ["y", None] if split else [None, None],
    }
    heads = heads if not split else heads | {"qkv": [None] * 4}  # 2 heads are not split in 4
    stack = (3,) if scanned else ()
    layer = {n: jax.ShapeDtypeStruct((*stack, *s), jnp.float32) for n, s in shapes.items()}
    laid = {n: dtensor.Layout([*(None for _ in stack), *s], MESH) for n, s in heads.items()}
    layers, layouts = (layer, laid) if scanned else ([layer] * 3, [laid] * 3)
    x = jax.ShapeDtypeStruct((16, 48, 32), jnp.float32)
    jitted = dtensor.jit(
        partial(step, scanned=scanned),
        mesh=MESH,
        in_layouts=(layouts, layouts, dtensor.Layout(["x", None, None], MESH)),
        out_layouts=(layouts, layouts),
        donate_argnums=(0, 1),
    )
    done = jitted.lower(layers, layers, x).compile()
    xla = done.memory_analysis()
    needs = xla.argument_size_in_bytes + xla.output_size_in_bytes + xla.temp_size_in_bytes
    assert done.memory is not None
    assert done.memory.peak_bytes == pytest.approx(needs - xla.alias_size_in_bytes, rel=0.1)


def peak(text: str, donated: tuple[int, ...] = ()) -> float:
    report = compiled(text, donated).memory
    assert report is not None
    return report.peak_bytes


def written(body: str) -> list[str]:
    """The operations of a function whose results are written to memory, as they run."""
    with make_context():
        module = parse_module(f"func.func @main{body}")
        kernels = Kernels(main_function(module).regions[0].blocks[0], OpReader())
        return [kernel.operation.name.split(".")[1] for kernel in kernels.ordered]


def test_what_is_cheap_is_computed_again_in_each_fusion_that_reads_it() -> None:
    def text(op: str) -> str:
        return f"""(%a: tensor<96x48xf32>, %b: tensor<96x48xf32>)
                -> (tensor<96x48xf32>, tensor<96x48xf32>) {{
            %2 = stablehlo.{op} %a, %b : tensor<96x48xf32>
            %3 = stablehlo.multiply %2, %a : tensor<96x48xf32>
            %4 = stablehlo.maximum %2, %b : tensor<96x48xf32>
            return %3, %4 : tensor<96x48xf32>, tensor<96x48xf32>
        }}"""

    assert written(text("subtract")) == ["multiply", "maximum"]
    assert written(text("divide")) == ["divide", "multiply", "maximum"]


@pytest.mark.parametrize(
    ("rows", "columns", "kernels"),
    [
        (16, 31, ["reduce"]),  # a loop, which computes what it sums
        (16, 33, ["multiply", "reduce"]),  # two steps, the first of which reads memory
        (128, 32, ["reduce"]),  # the library, which computes what nothing else reads
    ],
)
def test_a_sum_computes_what_it_reads_or_has_it_in_memory(
    rows: int, columns: int, kernels: list[str]
) -> None:
    wide, flat = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    assert (
        written(
            f"""(%a: {wide}) -> {flat} {{
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %0 = stablehlo.tanh %a : {wide}
            %1 = stablehlo.multiply %0, %0 : {wide}
            %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
                : ({wide}, tensor<f32>) -> {flat}
            return %2 : {flat}
        }}"""
        )
        == kernels
    )


def test_the_library_reads_what_others_read_too() -> None:
    wide, flat = "tensor<128x32xf32>", "tensor<128xf32>"
    text = f"""(%a: {wide}, %b: {wide}) -> ({flat}, {wide}) {{
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = stablehlo.subtract %a, %b : {wide}
        %1 = stablehlo.multiply %0, %0 : {wide}
        %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
            : ({wide}, tensor<f32>) -> {flat}
        %3 = stablehlo.negate %0 : {wide}
        return %2, %3 : {flat}, {wide}
    }}"""
    assert written(text) == ["subtract", "reduce", "negate"]


def test_what_is_ready_first_runs_first() -> None:
    # The last sum waits for nothing but the argument, as the first does.
    square, one = "tensor<8x8xf32>", "tensor<f32>"
    assert written(
        f"""(%a: {square}, %c: {one}) -> ({square}, {square}, {one}) {{
            %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
                : ({square}, {square}) -> {square}
            %1 = stablehlo.dot_general %0, %a, contracting_dims = [1] x [0]
                : ({square}, {square}) -> {square}
            %2 = stablehlo.tanh %1 : {square}
            %3 = stablehlo.cosine %a : {square}
            %4 = stablehlo.sine %c : {one}
            return %2, %3, %4 : {square}, {square}, {one}
        }}"""
    ) == ["dot_general", "cosine", "sine", "dot_general", "tanh"]


def test_a_donated_argument_that_is_read_besides_is_copied() -> None:
    def text(reader: str) -> str:
        return main(
            """(%w: tensor<64x64xf32> {dtensor.layout = #L[{}, {}]#},
                %x: tensor<64x64xf32> {dtensor.layout = #L[{}, {}]#})
                -> (tensor<64x64xf32>, tensor<64x64xf32>)""",
            f"""
            %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
                : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
            %1 = stablehlo.subtract %w, %0 : tensor<64x64xf32>
            %2 = stablehlo.dot_general %0, {reader}, contracting_dims = [1] x [0]
                : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
            return %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>""",
        )

    # Nothing says that the second product runs before the first result takes the place of %w.
    assert peak(text("%w"), (0,)) - peak(text("%x"), (0,)) == 64 * 64 * 4
    assert peak(text("%w")) == peak(text("%x"))


def test_a_dot_of_several_dimensions_reads_a_copy_in_its_order() -> None:
    def text(contracted: int) -> str:
        shape = ["48x6x5x7", "6x48x5x7"][contracted]
        return main(
            f"""(%a: tensor<{shape}xf32> {{dtensor.layout = #L[{{}}, {{}}, {{}}, {{}}]#}},
                %b: tensor<6x9xf32> {{dtensor.layout = #L[{{}}, {{}}]#}})
                -> (tensor<48x5x7x9xf32>, tensor<{shape}xf32>)""",
            f"""
            %t = stablehlo.tanh %a : tensor<{shape}xf32>
            %0 = stablehlo.dot_general %t, %b, contracting_dims = [{1 - contracted}] x [0]
                : (tensor<{shape}xf32>, tensor<6x9xf32>) -> tensor<48x5x7x9xf32>
            return %0, %t : tensor<48x5x7x9xf32>, tensor<{shape}xf32>""",
        )

    size = 48 * 6 * 5 * 7 * 4
    assert peak(text(0)) == 2 * size + 6 * 9 * 4 + 48 * 5 * 7 * 9 * 4 + size


def test_what_a_loop_passes_on_unchanged_is_not_there_twice() -> None:
    def text(passed: str) -> str:
        return main(
            """(%c: tensor<64x64xf32> {dtensor.layout = #L[{}, {}]#},
                %w: tensor<64x64xf32> {dtensor.layout = #L[{}, {}]#}) -> tensor<64x64xf32>""",
            f"""
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %one = stablehlo.constant dense<1> : tensor<i32>
            %end = stablehlo.constant dense<3> : tensor<i32>
            %r:3 = stablehlo.while(%i = %zero, %h = %c, %v = %w)
                : tensor<i32>, tensor<64x64xf32>, tensor<64x64xf32>
              cond {{
                %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %p : tensor<i1>
              }} do {{
                %0 = stablehlo.dot_general %h, %v, contracting_dims = [1] x [0]
                    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
                %1 = stablehlo.tanh %v : tensor<64x64xf32>
                %n = stablehlo.add %i, %one : tensor<i32>
                stablehlo.return %n, %0, {passed}
                    : tensor<i32>, tensor<64x64xf32>, tensor<64x64xf32>
              }}
            return %r#1 : tensor<64x64xf32>""",
        )

    assert peak(text("%v")) < peak(text("%1"))
    # Arguments, result, and the product beside what it is made of.
    assert peak(text("%v")) <= 4 * 64 * 64 * 4 + 64
