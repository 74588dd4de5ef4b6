"""A Shardy sharding on an op is not taken over, and the ledger says so."""

from __future__ import annotations

import dtensor

PROGRAM = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}
      : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
"""


def test_a_sharding_on_an_op_is_a_warning() -> None:
    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    layout = dtensor.Layout(["y", dtensor.UNSHARDED], mesh)
    compiled = dtensor.compile_mlir(PROGRAM, mesh=mesh, in_layouts=[layout])
    warnings = [r["text"] for r in compiled.ledger["records"] if r["kind"] == "warning"]
    assert warnings == [
        "the sharding on stablehlo.tanh is ignored; write a constraint to fix a value's layout"
    ]
    assert warnings[0] in compiled.explain()
