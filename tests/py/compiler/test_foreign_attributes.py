"""Attributes of dialects that jax does not know are refused before a program is planned."""

from __future__ import annotations

import pytest

from dtensor.compiler.mlir_frontend import lower_mlir
from dtensor.dialect.diagnostics import LocatedError
from dtensor.dialect.mesh import Mesh

MESH = Mesh.abstract([("x", 2)])
PROGRAM = """
module {
  func.func @main(%x: tensor<8xf32> ARGUMENT) -> tensor<8xf32> {
    %0 = stablehlo.sine %x OP : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""


def program(op: str = "", argument: str = "") -> str:
    return PROGRAM.replace("OP", op).replace("ARGUMENT", argument)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (program("{foo.q = #foo.x<1>}"), "4:10: attribute foo.q has #foo.x<1>, of a dialect"),
        (program("{q = [{a = #foo.x<2>}]}"), "4:10: attribute q has #foo.x<2>, of a dialect"),
        (program("{q = !foo.t<1>}"), "4:10: attribute q has !foo.t<1>, of a dialect that"),
        (program("", "{a.b = #foo.x<3>}"), "3:3: attribute arg_attrs has #foo.x<3>, of a dialect"),
    ],
)
def test_a_value_that_jax_cannot_read_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(LocatedError, match=complaint):
        lower_mlir(text, mesh=MESH)


def test_names_of_any_dialect_are_taken() -> None:
    lower_mlir(
        program('{foo.q = "x", dtensor.results = [#dtensor.layout<@mesh, [{}]>]}'), mesh=MESH
    )
