"""Handles that outlive the names of their module; test_modules.py runs it in its own process."""

import gc

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.mlir import ir

TEXT = """func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %b = stablehlo.sine %a : tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}"""


def function() -> ir.Operation:
    """The function of a module that has no name here, in a context that is left."""
    with make_context():
        return parse_module(TEXT).body.operations[0].operation


def main() -> None:
    """Hold one handle of each kind, let all else go, read other modules, and use them."""
    held = [
        function(),
        function().attributes,
        function().regions[0],
        function().regions[0].blocks[0],
        function().regions[0].blocks[0].arguments[0],
        function().regions[0].blocks[0].operations[0].operation.results[0],
    ]
    with make_context():
        parse_module(TEXT)  # and another of the same context
        bare = parse_module(TEXT)
    other = bare.body.operations[0]
    del bare
    for _ in range(20):
        gc.collect()
        function()
    assert "sine" in str(held[0])
    assert [name for name, _ in held[1].items()] == ["function_type", "sym_name"]
    assert len(held[2].blocks) == 1
    assert "sine" in str(held[3])
    assert str(held[4].type) == str(held[5].type) == "tensor<4x8xf32>"
    assert "sine" in str(other)


if __name__ == "__main__":
    main()
