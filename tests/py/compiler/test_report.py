"""What a program of one device costs, as it is reported."""

import pytest

from dtensor.passes.cost.model import all_gather_bytes
from tests.py.compiler.programs import LOOP, compiled, main


def test_collectives_in_loops_count_their_iterations() -> None:
    result = compiled(LOOP)
    (reduce,) = result.collectives
    assert (reduce.kind, reduce.mesh_axes, reduce.dtype) == ("all_reduce", ("y",), "f32")
    assert reduce.shape == (4, 32)
    assert reduce.trip_count == 3
    assert reduce.bytes == 2 * (4 * 32 * 4) * 3 / 4  # ring of 4, both directions
    assert reduce.location.startswith("p.mlir:17:")


def test_flops_are_those_of_one_device_with_loops_in_full() -> None:
    result = compiled(LOOP)
    dots = 2 * (2 * 4 * 8 * 32)  # two matmuls of 4x32 by 32x8 per turn
    small = 4 * 8 + 2  # tanh; the counter's comparison and addition
    assert result.local_flops == 3 * (dots + small)


def test_batch_dimensions_of_a_matmul_count_once() -> None:
    text = main(
        """(%a: tensor<6x8x5xf32> {dtensor.layout = #L[{"x"}, {}, {}]#},
            %b: tensor<6x5x7xf32> {dtensor.layout = #L[{"x"}, {}, {}]#}) -> tensor<6x8x7xf32>""",
        """
        %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
            : (tensor<6x8x5xf32>, tensor<6x5x7xf32>) -> tensor<6x8x7xf32>
        return %0 : tensor<6x8x7xf32>""",
    )
    assert compiled(text).local_flops == 2 * 3 * 8 * 7 * 5


def test_a_convolution_counts_its_kernel() -> None:
    text = main(
        """(%a: tensor<8x16x16x3xf32> {dtensor.layout = #L[{"x"}, {}, {}, {}]#},
            %k: tensor<3x3x3x16xf32>) -> tensor<8x16x16x16xf32>""",
        """
        %0 = stablehlo.convolution(%a, %k)
            dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
            window = {pad = [[1, 1], [1, 1]]}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<8x16x16x3xf32>, tensor<3x3x3x16xf32>) -> tensor<8x16x16x16xf32>
        return %0 : tensor<8x16x16x16xf32>""",
    )
    result = compiled(text)
    assert result.result_layouts[0].dims[0].split == 2
    assert result.local_flops == 2 * (4 * 16 * 16 * 16) * (3 * 3 * 3)


def test_a_gather_counts_what_it_makes() -> None:
    text = main(
        """(%a: tensor<8x16xbf16> {dtensor.layout = #L[{"x"}, {}]#})
            -> (tensor<8x16xbf16> {dtensor.layout = #L[{}, {}]#})""",
        "return %a : tensor<8x16xbf16>",
    )
    (gather,) = compiled(text).collectives
    assert (gather.kind, gather.dtype, gather.shape) == ("all_gather", "bf16", (8, 16))
    assert gather.bytes == all_gather_bytes(8 * 16 * 2, 2)
    assert gather.trip_count == 1
    assert gather.reason == 'argument 0 gives [{"x"}, {}], result 0 must have [{}, {}]'


def with_large_weights(loop: str) -> str:
    """The loop with weights that nobody gathers ahead of it."""
    return loop.replace("x32xf32", "x128xf32").replace("<32x128", "<128x128")


def test_a_loop_of_unknown_length_has_no_trip_count() -> None:
    result = compiled(with_large_weights(LOOP).replace("LT, %i", "NE, %i"))
    assert [c.trip_count for c in result.collectives] == [None]
    (warning,) = result.ledger.of_kind("warning")
    assert "trip count of this loop is unknown" in warning.text


def test_one_reduction_over_several_axes() -> None:
    text = main(
        """(%a: tensor<16x8xf32> {dtensor.layout = #L[{"x", "y"}, {}]#})
            -> (tensor<8xf32> {dtensor.layout = #L[{}]#})""",
        """
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
            : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>""",
    )
    (reduce,) = compiled(text).collectives
    assert set(reduce.mesh_axes) == {"x", "y"}
    assert reduce.bytes == pytest.approx(2 * 8 * 4 * 7 / 8)


def test_a_program_that_stays_apart_has_no_collectives() -> None:
    text = main(
        """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {"y"}]#}) -> tensor<8x16xf32>""",
        """
        %0 = stablehlo.tanh %a : tensor<8x16xf32>
        return %0 : tensor<8x16xf32>""",
    )
    result = compiled(text)
    assert result.collectives == ()
    assert result.local_flops == 8 * 16 / 8


def test_loops_inside_loops_multiply() -> None:
    inner = "%1 = stablehlo.tanh %0 : tensor<8x32xf32>"
    loop = """
        %k:2 = stablehlo.while(%j = %zero, %d = %0) : tensor<i32>, tensor<8x32xf32>
          cond {
            %q = stablehlo.compare LT, %j, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %q : tensor<i1>
          } do {
            %5 = stablehlo.dot_general %d, %v, contracting_dims = [1] x [0]
                : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
            %7 = stablehlo.tanh %5 : tensor<8x32xf32>
            %m = stablehlo.add %j, %one : tensor<i32>
            stablehlo.return %m, %7 : tensor<i32>, tensor<8x32xf32>
          }
        %1 = stablehlo.tanh %k#1 : tensor<8x32xf32>"""
    assert inner in LOOP
    result = compiled(with_large_weights(LOOP.replace(inner, loop)))
    assert {c.trip_count for c in result.collectives} == {9, 3}


def test_a_convolution_counts_its_window_and_its_features() -> None:
    text = main(
        """(%a: tensor<4x8x8x3xf32> {dtensor.layout = #L[{"x"}, {}, {}, {}]#},
            %b: tensor<3x3x3x16xf32> {dtensor.layout = #L[{}, {}, {}, {}]#})
            -> tensor<4x8x8x16xf32>""",
        """
        %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
            window = {pad = [[1, 1], [1, 1]]}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<4x8x8x3xf32>, tensor<3x3x3x16xf32>) -> tensor<4x8x8x16xf32>
        return %0 : tensor<4x8x8x16xf32>""",
    )
    assert compiled(text).local_flops == 2 * (2 * 8 * 8 * 16) * (3 * 3) * 3


def test_a_cholesky_factor_counts_a_third_of_the_cube() -> None:
    text = main(
        """(%a: tensor<2x6x6xf32> {dtensor.layout = #L[{"x"}, {}, {}]#}) -> tensor<2x6x6xf32>""",
        """%0 = stablehlo.cholesky %a, lower = true : tensor<2x6x6xf32>
        return %0 : tensor<2x6x6xf32>""",
    )
    assert compiled(text).local_flops == 6**3 / 3
