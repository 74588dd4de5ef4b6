"""Every builder makes an operation that the verifier accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dtensor.dialect import build
from dtensor.dialect.attributes import axes_attr, index_attr
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.ops import AllGatherOp, MeshOp
from dtensor.dialect.verify import verify_all

MESH = Mesh({"x": 2, "y": 4})
X = MESH.axis("x")


@pytest.fixture(name="module")
def _module() -> Iterator[ir.Module]:
    with make_context(), ir.Location.unknown():
        module = parse_module("func.func @main(%arg0: tensor<8x3xf32>) {\n  return\n}")
        build.mesh(MESH, ip=ir.InsertionPoint.at_block_begin(module.body))
        yield module


def _block(module: ir.Module) -> ir.Block:
    function: Any = module.body.operations[1]
    block: ir.Block = function.operation.regions[0].blocks[0]
    return block


def _maker(value: Any) -> Any:
    return value.owner


def _manual(x: Any) -> Any:
    split, whole = Layout(["x", None], MESH), Layout([None, None], MESH)
    op = build.manual([x], [split], [x.type], [whole])
    (argument,) = op.regions[0].blocks[0].arguments
    assert str(argument.type) == "tensor<4x3xf32>"
    with ir.InsertionPoint(op.regions[0].blocks[0]), ir.Location.unknown():
        ir.Operation.create("stablehlo.return", operands=[x])
    return op.results[0]


def _zeros(size: int, scalar: Any) -> Any:
    type_ = ir.RankedTensorType.get([size], scalar.type)
    value = ir.DenseElementsAttr.get_splat(type_, scalar)
    op = ir.Operation.create("stablehlo.constant", [type_], attributes={"value": value})
    return op.results[0]


def _search(x: Any) -> Any:
    table = _zeros(7, ir.FloatAttr.get(ir.F32Type.get(), 0.0))
    return _compared(build.search(table, [x], 6, ir.IntegerType.get_signless(32)))


def _ranked(x: Any) -> Any:
    places = _zeros(2, ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0))
    return _compared(build.ranked(x, places, 0))


def _scan(x: Any) -> Any:
    op = build.scan([x], 0)
    with ir.InsertionPoint(op.regions[0].blocks[0]):
        _, later = op.regions[0].blocks[0].arguments
        ir.Operation.create("stablehlo.return", operands=[later])
    return op.results[0]


def _compared(op: ir.Operation) -> Any:
    """The result of an op whose region has its arguments: the first is less than the second."""
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        less = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
        i1 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
        made = ir.Operation.create(
            "stablehlo.compare", [i1], list(body.arguments), {"comparison_direction": less}
        )
        ir.Operation.create("stablehlo.return", operands=[made.results[0]])
    return op.results[0]


def _qr(x: Any) -> Any:
    call = ir.DictAttr.get({"call_target_name": ir.StringAttr.get("Qr")})
    return build.qr(x, call, call).results[0]


def _fft(x: Any) -> Any:
    kind = ir.Attribute.parse("#stablehlo<fft_type RFFT>")
    type_ = ir.RankedTensorType(x.type)
    result = ir.RankedTensorType.get(type_.shape, ir.ComplexType.get(type_.element_type))
    return build.fft(x, result, kind, ir.DenseI64ArrayAttr.get([type_.shape[-1] - 1])).results[0]


def _gather_dot(x: Any) -> Any:
    rows = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]"
    said = {
        "dimension_numbers": f"#stablehlo.gather<{rows}, index_vector_dim = 1>",
        "slice_sizes": "array<i64: 1, 3>",
        "dot_dimension_numbers": "#stablehlo.dot<lhs_contracting_dimensions = [0], "
        "rhs_contracting_dimensions = [0]>",
    }
    attributes = {name: ir.Attribute.parse(text) for name, text in said.items()}
    numbers = ir.RankedTensorType.get([2], ir.IntegerType.get_signless(32))
    cast = "builtin.unrealized_conversion_cast"
    places = ir.Operation.create(cast, [numbers], [x]).results[0]
    other = ir.Operation.create(cast, [ir.RankedTensorType.get([2], ir.F32Type.get())], [x])
    result = ir.RankedTensorType.get([3], ir.F32Type.get())
    return build.gather_dot([x, places, other.results[0]], result, attributes).results[0]


def test_each_builder_gives_the_type_that_the_verifier_wants(module: ir.Module) -> None:
    block = _block(module)
    x: Any = block.arguments[0]
    with ir.InsertionPoint.at_block_terminator(block):
        made = {
            "dtensor.relayout": build.relayout(x, Layout(["y", None], MESH)),
            "dtensor.alike": build.alike([x, x])[1],
            "dtensor.propagation_barrier": build.propagation_barrier(x, "forward"),
            "dtensor.manual": _manual(x),
            "dtensor.splice": build.splice([x, x], 1, [(1, 2, 1), (0, 0, 3)]),
            "dtensor.search": _search(x),
            "dtensor.ranked": _ranked(x),
            "dtensor.qr": _qr(x),
            "dtensor.fft": _fft(x),
            "dtensor.gather_dot": _gather_dot(x),
            "dtensor.scan": _scan(x),
        }
    assert [_maker(value).name for value in made.values()] == list(made)
    assert {name: str(value.type) for name, value in made.items()} == {
        "dtensor.relayout": "tensor<8x3xf32>",
        "dtensor.alike": "tensor<8x3xf32>",
        "dtensor.propagation_barrier": "tensor<8x3xf32>",
        "dtensor.manual": "tensor<8x3xf32>",
        "dtensor.splice": "tensor<8x4xf32>",
        "dtensor.search": "tensor<8x3xi32>",
        "dtensor.ranked": "tensor<2x3xf32>",
        "dtensor.fft": "tensor<8x3xcomplex<f32>>",
        "dtensor.qr": "tensor<8x3xf32>",
        "dtensor.gather_dot": "tensor<3xf32>",
        "dtensor.scan": "tensor<8x3xf32>",
    }
    verify_all(module)


def test_operations_take_the_location_given(module: ir.Module) -> None:
    block = _block(module)
    place = ir.Location.file("train.py", 3, 7)
    ip = ir.InsertionPoint.at_block_terminator(block)
    value = build.relayout(block.arguments[0], Layout([None, None], MESH), loc=place, ip=ip)
    assert _maker(value).location == place


def test_iterating_gives_views_that_read_attributes(module: ir.Module) -> None:
    block = _block(module)
    attributes = {"axes": axes_attr(MESH, [X]), "dim": index_attr(1)}
    with ir.InsertionPoint.at_block_begin(block):
        types = [ir.RankedTensorType.get([8, 6], ir.F32Type.get())]
        ir.Operation.create("dtensor.all_gather", types, [block.arguments[0]], attributes)
    view = block.operations[0]
    assert isinstance(view, AllGatherOp)
    assert view.read("dim", {}) == 1
    assert view.read("axes", {"mesh": MESH}) == (MESH, (X,))
    assert isinstance(module.body.operations[0], MeshOp)
