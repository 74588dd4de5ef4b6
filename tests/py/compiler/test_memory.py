"""`max_bytes_per_device`: what one device holds, by the plan."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.dialect.errors import MemoryLimitError
from tests.py.compiler.programs import LOOP, compiled, main

# Per device: %a 4x16 floats, %w 16x64, the product 4x64.
MATMUL = main(
    """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#},
        %w: tensor<16x64xf32> {dtensor.layout = #L[{}, {}]#})
        -> (tensor<8x64xf32> {dtensor.layout = #L[{"x"}, {}]#})""",
    """
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
        : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    return %0 : tensor<8x64xf32>""",
)
A, W, PRODUCT = 4 * 16 * 4, 16 * 64 * 4, 4 * 64 * 4


def test_the_plan_says_what_is_held_without_a_limit() -> None:
    report = compiled(MATMUL).memory
    assert report is not None
    assert report.peak_bytes == A + W + PRODUCT
    assert report.argument_bytes == A + W
    assert [t.bytes for t in report.tensors] == [W, PRODUCT, A]


def message(text: str, limit: int, donated: tuple[int, ...] = ()) -> str:
    with pytest.raises(MemoryLimitError) as raised:
        compiled(text, donated, max_bytes_per_device=limit)
    return str(raised.value)


def needed(text: str) -> int:
    return int(message(text, 1).split("about ")[1].split(" ")[0])


def test_a_program_that_fits_is_compiled() -> None:
    compiled(MATMUL, max_bytes_per_device=A + W + PRODUCT)


def test_one_byte_less_is_too_little_and_names_the_tensors() -> None:
    text = message(MATMUL, A + W + PRODUCT - 1)
    assert f"needs about {A + W + PRODUCT} bytes per device, max_bytes_per_device is" in text
    assert (
        f"argument 1 tensor<16x64xf32>: {W} bytes; dot_general tensor<4x64xf32> at p.mlir:" in text
    )
    assert f"argument 0 tensor<4x16xf32>: {A} bytes" in text
    assert "split the largest tensors over more axes, or raise the limit" in text
    # the largest first
    assert text.index("argument 1") < text.index("dot_general") < text.index("argument 0")


def test_shards_are_counted_not_arrays() -> None:
    split = MATMUL.replace("[{}, {}]>})", '[{}, {"y"}]>})')
    assert f"argument 1 tensor<16x16xf32>: {W // 4} bytes" in message(split, 1)


def test_a_donated_argument_makes_room_for_results() -> None:
    text = main(
        """(%a: tensor<64x8xf32> {dtensor.layout = #L[{"x"}, {}]#})
            -> (tensor<64x8xf32> {dtensor.layout = #L[{"x"}, {}]#})""",
        """
        %0 = stablehlo.tanh %a : tensor<64x8xf32>
        return %0 : tensor<64x8xf32>""",
    )
    half = 32 * 8 * 4
    message(text, 2 * half - 1)
    compiled(text, (0,), max_bytes_per_device=half)
    message(text, half - 1, (0,))


def test_values_that_are_not_alive_at_once_do_not_add_up() -> None:
    def chain(length: int) -> str:
        steps = [
            f"%{i + 1} = stablehlo.dot_general %{i}, %w, contracting_dims = [1] x [0]"
            " : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>"
            for i in range(length)
        ]
        body = "\n".join(["%0 = stablehlo.tanh %a : tensor<8x16xf32>", *steps])
        return main(
            """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#},
                %w: tensor<16x16xf32> {dtensor.layout = #L[{}, {}]#}) -> tensor<8x16xf32>""",
            f"{body}\nreturn %{length} : tensor<8x16xf32>",
        )

    # Every other value is where the result will be.
    assert needed(chain(3)) == needed(chain(9))


def test_what_a_loop_holds_inside_counts() -> None:
    inside = """
        %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
            : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>"""
    wide = """
        %5 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
            : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
        %6 = stablehlo.dot_general %5, %5, contracting_dims = [1] x [1]
            : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
        %2 = stablehlo.dot_general %6, %5, contracting_dims = [1] x [0]
            : (tensor<8x8xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>"""
    assert inside in LOOP
    assert needed(LOOP.replace(inside, wide)) > needed(LOOP)


def test_what_xla_fuses_keeps_what_it_reads_alive() -> None:
    def text(reader: str) -> str:
        return main(
            """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#},
                %w: tensor<16x48xf32> {dtensor.layout = #L[{}, {}]#},
                %v: tensor<48x16xf32> {dtensor.layout = #L[{}, {}]#}) -> tensor<8x48xf32>""",
            f"""
            %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
                : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
            %1 = stablehlo.multiply %0, %0 : tensor<8x48xf32>
            %2 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0]
                : (tensor<8x48xf32>, tensor<48x16xf32>) -> tensor<8x16xf32>
            %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0]
                : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
            %4 = stablehlo.add %3, {reader} : tensor<8x48xf32>
            return %4 : tensor<8x48xf32>""",
        )

    # The product is computed where it is read, from %0, which is there as long.
    assert needed(text("%1")) == needed(text("%0"))
    assert needed(text("%1")) > needed(text("%3"))


def test_sums_that_xla_makes_together_hold_both_sides() -> None:
    text = main(
        """(%a: tensor<256x16xf32> {dtensor.layout = #L[{"x"}, {}]#},
            %b: tensor<256x48xf32> {dtensor.layout = #L[{"x"}, {}]#},
            %c: tensor<256x80xf32> {dtensor.layout = #L[{"x"}, {}]#})
            -> (tensor<16x48xf32> {dtensor.layout = #L[{}, {}]#},
                tensor<16x80xf32> {dtensor.layout = #L[{}, {}]#})""",
        """
        %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
            : (tensor<256x16xf32>, tensor<256x48xf32>) -> tensor<16x48xf32>
        %1 = stablehlo.dot_general %a, %c, contracting_dims = [0] x [0]
            : (tensor<256x16xf32>, tensor<256x80xf32>) -> tensor<16x80xf32>
        return %0, %1 : tensor<16x48xf32>, tensor<16x80xf32>""",
    )
    report = compiled(text).memory
    assert report is not None
    arguments = 128 * (16 + 48 + 80) * 4
    assert report.peak_bytes - arguments == 2 * 16 * (48 + 80) * 4


def test_a_training_step_is_planned_within_a_tenth_of_what_xla_needs() -> None:
    def step(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> tuple[list[Any], jax.Array]:
        def loss(weights: list[jax.Array]) -> jax.Array:
            h = x
            for w in weights:
                h = jnp.tanh(h @ w)
            return jnp.mean((h - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(weights)
        return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], value

    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    batch, scalar = dtensor.Layout([("x", "y"), None], mesh), dtensor.Layout([], mesh)
    whole = dtensor.Layout([None, None], mesh)
    shapes = ((64, 192), (192, 128), (128, 256))
    weights = [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]
    data = jax.ShapeDtypeStruct((4096, 64), jnp.float32)
    target = jax.ShapeDtypeStruct((4096, 256), jnp.float32)
    layouts = ([whole] * 3, batch, batch)
    jitted = dtensor.jit(step, mesh=mesh, in_layouts=layouts, out_layouts=([whole] * 3, scalar))
    compiled_step = jitted.lower(weights, data, target).compile()
    xla = compiled_step.memory_analysis()
    needs = xla.argument_size_in_bytes + xla.output_size_in_bytes + xla.temp_size_in_bytes
    assert compiled_step.memory is not None
    assert compiled_step.memory.peak_bytes == pytest.approx(needs, rel=0.1)
