"""The driver: layouts of the call, errors and their lines, strict mode, the same text always."""

from pathlib import Path
from typing import Any

import pytest

from dtensor.compiler.driver import compile_module
from dtensor.compiler.options import CompileOptions
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import LocatedError
from dtensor.dialect.errors import CompileError, StrictError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.pipelines import PIPELINES
from tests.py.compiler.programs import LOOP, MESH, compiled, main
from tests.py.fresh import under_hash_seeds

ROOT = Path(__file__).resolve().parents[3]
PLAIN = """
func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
"""
ROWS, COLUMNS, WHOLE = (
    Layout.parse(f"#dtensor.layout<@mesh, [{dims}]>", MESH)
    for dims in ('{"x"}, {}', '{}, {"y"}', "{}, {}")
)
OPTIONS = CompileOptions()


def test_layouts_of_the_call_are_taken() -> None:
    result = compile_module(PLAIN, "p.mlir", MESH, [ROWS], [None], OPTIONS)
    assert result.mesh == MESH
    assert result.arg_layouts == (ROWS,)
    assert result.result_layouts == (ROWS,)
    result = compile_module(PLAIN, "p.mlir", MESH, [ROWS], [WHOLE], OPTIONS)
    assert result.result_layouts == (WHOLE,)
    assert [c.kind for c in result.collectives] == ["all_gather"]


def test_a_layout_of_the_call_counts_more_than_the_annotation() -> None:
    text = main(
        """(%a: tensor<8x16xf32> {dtensor.layout = #L[{}, {"y"}]#}) -> tensor<8x16xf32>""",
        "return %a : tensor<8x16xf32>",
    )
    assert compile_module(text, "p.mlir", None, [None], [None], OPTIONS).arg_layouts == (COLUMNS,)
    assert compile_module(text, "p.mlir", MESH, [ROWS], [None], OPTIONS).arg_layouts == (ROWS,)


def test_the_program_of_one_device_is_plain_stablehlo() -> None:
    result = compiled(LOOP)
    with make_context():
        text = str(parse_module(result.bytecode))
    assert "dtensor" not in text
    assert "sdy" not in text
    assert "tensor<4x32xf32>" in text
    assert text.count('"stablehlo.all_reduce"') == 1


def test_each_pass_can_be_watched() -> None:
    seen = []
    compile_module(
        PLAIN, "p.mlir", MESH, [ROWS], [None], OPTIONS, after=lambda name, _: seen.append(name)
    )
    names = [stage.text.split("(")[-1].rstrip(")") for stage in PIPELINES["dtensor-spmd"]]
    assert seen == names


# Refusals.


def test_layouts_that_do_not_fit_name_the_function() -> None:
    with pytest.raises(LocatedError, match=r"p.mlir:2:1: 2 layouts for 1 arguments; give one for"):
        compile_module(PLAIN, "p.mlir", MESH, [ROWS, ROWS], [None], OPTIONS)
    short = Layout.parse('#dtensor.layout<@mesh, [{"x"}]>', MESH)
    with pytest.raises(
        LocatedError,
        match=r"argument 0 cannot have the layout .*: layout has 1 dimensions but the tensor",
    ):
        compile_module(PLAIN, "p.mlir", MESH, [short], [None], OPTIONS)
    partial = Layout.parse('#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>', MESH)
    with pytest.raises(
        LocatedError, match=r"result 0 cannot have the layout .*: partial over axes"
    ):
        compile_module(PLAIN, "p.mlir", MESH, [None], [partial], OPTIONS)


def test_an_error_inside_the_program_names_its_line() -> None:
    text = PLAIN.replace("stablehlo.tanh %a", "stablehlo.custom_call @Sharding(%a)").replace(
        ": tensor<8x16xf32>\n  return", ": (tensor<8x16xf32>) -> tensor<8x16xf32>\n  return"
    )
    with pytest.raises(LocatedError, match=r"^p.mlir:3:\d+: custom call @Sharding has no mhlo"):
        compile_module(text, "p.mlir", MESH, [None], [None], OPTIONS)


def test_no_mesh_is_an_error() -> None:
    with pytest.raises(CompileError, match="no mesh"):
        compile_module(PLAIN, "p.mlir", None, [None], [None], OPTIONS)


def test_another_mesh_than_the_module_s_is_an_error() -> None:
    with pytest.raises(
        CompileError, match=r"meshes differ: @mesh is mesh\(x=2, y=4\), the mesh given"
    ):
        compile_module(LOOP, "p.mlir", Mesh([("x", 8)]), [None] * 3, [None], OPTIONS)


WITHOUT_REPORTS = (
    "builtin.module(dtensor-import, dtensor-propagate, dtensor-insert-relayouts, dtensor-expand, "
    "dtensor-report-cost, dtensor-lower)"
)


@pytest.mark.parametrize(
    ("pipeline", "given", "missing"),
    [
        ("builtin.module(dtensor-import, dtensor-propagate)", {}, "dtensor-report-cost, which"),
        (WITHOUT_REPORTS, {"reduce_dtype": "float32"}, "dtensor-widen-reductions, which reduce_d"),
        (WITHOUT_REPORTS, {"max_bytes_per_device": 9}, "dtensor-report-memory, which max_bytes"),
    ],
)
def test_a_pipeline_that_leaves_out_what_is_asked_for_is_refused(
    pipeline: str, given: dict[str, Any], missing: str
) -> None:
    options = CompileOptions(pipeline=pipeline, **given)
    with pytest.raises(CompileError, match=f"the pipeline does not run {missing}"):
        compile_module(PLAIN, "p.mlir", MESH, [ROWS], [None], options)


def test_a_pipeline_of_one_s_own_may_leave_out_what_nobody_asks_for() -> None:
    options = CompileOptions(pipeline=WITHOUT_REPORTS)
    result = compile_module(PLAIN, "p.mlir", MESH, [ROWS], [WHOLE], options)
    assert [c.kind for c in result.collectives] == ["all_gather"]
    assert result.memory is None


HALVES = main(
    """(%a: tensor<8x64xf16> {dtensor.layout = #L[{}, {"x"}]#},
        %b: tensor<64x4xf16> {dtensor.layout = #L[{"x"}, {}]#})
        -> (tensor<8x4xf16> {dtensor.layout = #L[{}, {}]#})""",
    """
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<8x64xf16>, tensor<64x4xf16>) -> tensor<8x4xf16>
    return %0 : tensor<8x4xf16>""",
)


def test_sums_are_made_in_the_type_that_is_asked_for() -> None:
    narrow = HALVES.replace("xf16>", "xbf16>")
    assert [c.dtype for c in compiled(narrow).collectives] == ["bf16"]
    assert [c.dtype for c in compiled(narrow, reduce_dtype="float32").collectives] == ["f32"]


def test_sums_of_float16_are_float32_unless_asked_for() -> None:
    """For twice the bytes, in the plan too."""
    wide, narrow = compiled(HALVES), compiled(HALVES, reduce_dtype="float16")
    assert [c.dtype for c in wide.collectives] == ["f32"]
    assert [c.dtype for c in narrow.collectives] == ["f16"]
    seconds = [result.ledger.trails[0].plan.seconds for result in (wide, narrow)]
    assert seconds[0] > seconds[1]


# Strict.


def test_strict_refuses_a_fallback() -> None:
    text = main(
        """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#}) -> tensor<8x16xf32>""",
        """
        %0 = stablehlo.custom_call @mine(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
        return %0 : tensor<8x16xf32>""",
    )
    assert next(r.kind for r in compiled(text).ledger.unasked()) == "fallback"
    with pytest.raises(
        StrictError, match=r"^p.mlir:4:14: strict: stablehlo.custom_call @mine has no"
    ):
        compiled(text, strict=True)


def test_strict_refuses_a_move_that_nobody_asked_for() -> None:
    text = main(
        """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#},
            %b: tensor<8x16xf32> {dtensor.layout = #L[{}, {"x"}]#})
            -> (tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#})""",
        """
        %0 = stablehlo.tanh %b : tensor<8x16xf32>
        %1 = "dtensor.relayout"(%0) {layout = #L[{}, {"x"}]#}
            : (tensor<8x16xf32>) -> tensor<8x16xf32>
        %2 = stablehlo.exponential %1 : tensor<8x16xf32>
        %3 = stablehlo.add %a, %2 : tensor<8x16xf32>
        return %3 : tensor<8x16xf32>""",
    )
    compiled(text)
    with pytest.raises(StrictError, match=r"p.mlir:\d+:\d+: strict: .* gives .* needs"):
        compiled(text, strict=True)


def test_strict_finds_a_dearer_plan_that_moves_nothing_else() -> None:
    """Data parallel: to gather the batch is less than to add up the gradient."""
    text = main(
        """(%x: tensor<8x48xf32> {dtensor.layout = #L[{"x"}, {}]#},
            %y: tensor<8x64xf32> {dtensor.layout = #L[{"x"}, {}]#})
            -> (tensor<48x64xf32> {dtensor.layout = #L[{}, {}]#})""",
        """
        %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
            : (tensor<8x48xf32>, tensor<8x64xf32>) -> tensor<48x64xf32>
        return %0 : tensor<48x64xf32>""",
    )
    cheapest, strict = compiled(text), compiled(text, strict=True)
    assert {c.kind for c in cheapest.collectives} == {"all_gather"}
    assert [c.kind for c in strict.collectives] == ["all_reduce"]
    (plan,) = strict.ledger.of_kind("plan")
    sent = {r.seconds for r in strict.ledger.of_kind("relayout")}
    assert max(s for s in sent if s is not None) <= plan.seconds < 2e-6


def test_strict_accepts_what_was_asked_for() -> None:
    compiled(LOOP, strict=True)  # sums of parts follow from how the weights are laid out
    moved = main(
        """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#})
            -> (tensor<8x16xf32> {dtensor.layout = #L[{}, {"x"}]#})""",
        "return %a : tensor<8x16xf32>",
    )
    assert len(compiled(moved, strict=True).collectives) == 1


# The same answer every time.

PROGRAM = """
import hashlib, json
from tests.py.compiler.programs import LOOP, compiled
for _ in range(2):
    result = compiled(LOOP)
    print(hashlib.sha256(result.bytecode).hexdigest(), json.dumps(result.ledger.to_json()))
    print(result.collectives, result.arg_layouts, result.result_layouts)
"""


@pytest.mark.long
def test_the_same_program_gives_the_same_bytes() -> None:
    outputs = [printed.splitlines() for printed in under_hash_seeds(PROGRAM)]
    assert outputs[0] == outputs[1]
    assert outputs[0][:2] == outputs[0][2:]
