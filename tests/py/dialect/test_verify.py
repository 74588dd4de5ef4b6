"""The verifier on what lit cannot show: many findings at once, phases, cost."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import LocatedError
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.verify import diagnostics_of, verify_all, verify_module

MESH = '"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()\n'


@pytest.fixture(autouse=True)
def _in_context() -> Iterator[None]:
    with make_context(), ir.Location.unknown():
        yield


def test_a_mesh_defined_twice_is_refused() -> None:
    # jaxlib 0.10's MLIR says so while it parses, 0.12's leaves it to our verifier.
    with pytest.raises(LocatedError, match=r"redefinition of symbol named 'mesh'|defined twice"):
        verify_all(parse_module(MESH + MESH, "two.mlir"))


def test_every_finding_is_reported_in_order_of_place() -> None:
    module = parse_module(
        "func.func @main(%arg0: tensor<2xf32>) {\n"
        '  "dtensor.one"() : () -> ()\n'
        "  %0 = stablehlo.abs %arg0 {dtensor.two} : tensor<2xf32>\n"
        '  "other.three"() : () -> ()\n'
        "  return\n"
        "}\n",
        "a.mlir",
    )
    with pytest.raises(LocatedError, match=r"^a\.mlir:2:3: unknown operation") as caught:
        verify_module(module)
    lines = [d.place.line for d in caught.value.diagnostics if d.place is not None]
    assert lines == [2, 3, 4]


def test_shapes_are_global_until_the_module_says_local() -> None:
    text = MESH + (
        "module attributes {} {}\n"
        "func.func private @f("
        "tensor<3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{2, X}]>})\n"
    ).replace("module attributes {} {}\n", "").replace("X", '"x"')
    assert len(diagnostics_of(parse_module(text))) == 1
    local = f"module attributes {{dtensor.local}} {{\n{text}}}"
    assert diagnostics_of(parse_module(local)) == []


def test_meshes_may_come_from_the_caller() -> None:
    text = (
        "func.func private @f(tensor<4xf32>"
        ' {dtensor.layout = #dtensor.layout<@mesh, [{2, "x"}]>})\n'
    )
    module = parse_module(text)
    assert diagnostics_of(module, {"mesh": Mesh({"x": 2})}) == []
    assert len(diagnostics_of(module, {"mesh": Mesh({"x": 3})})) == 1
    assert len(diagnostics_of(module)) == 1


def test_mlirs_own_rules_are_checked_too() -> None:
    module = parse_module("func.func @main(%arg0: tensor<2xf32>) {\n  return\n}")
    value = next(iter(module.body.operations)).operation.regions[0].blocks[0].arguments[0]
    value.set_type(ir.RankedTensorType.get([3], ir.F32Type.get()))
    verify_module(module)
    with pytest.raises(LocatedError, match="type of entry block argument #0"):
        verify_all(module)


def test_each_operation_costs_little() -> None:
    """Measured 1.0 microseconds on an idle core; the bound leaves room for a busy machine."""
    body = "\n".join(
        f"%v{i} = stablehlo.add %{f'v{i - 1}' if i else 'arg0'}, %arg0 : tensor<4xf32>"
        for i in range(5000)
    )
    module = parse_module(f"func.func @main(%arg0: tensor<4xf32>) {{\n{body}\nreturn\n}}")
    seconds = []
    for _ in range(5):
        start = time.process_time()
        verify_module(module)
        seconds.append(time.process_time() - start)
    assert min(seconds) / 5000 < 6e-6
