"""`max_bytes_per_device`: what one device holds, by the plan."""

import pytest

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

    assert needed(chain(2)) == needed(chain(9))


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
