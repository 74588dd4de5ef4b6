"""Faults for `dtensor.verify` to find."""

from __future__ import annotations

from dtensor.compiler.verification.extract import inside
from dtensor.dialect.mlir import ir
from dtensor.passes.functions import main_function


def turned(module: ir.Module, name: str = "stablehlo.add") -> None:
    """Make every addition, or what is named instead, a subtraction."""
    for op in list(inside(main_function(module))):
        if op.name == name:
            operands = list(op.operands)
            types = [operands[0].type]
            attributes = dict(op.attributes.items())
            with op.location:
                new = ir.Operation.create(
                    "stablehlo.subtract", types, operands, attributes, ip=ir.InsertionPoint(op)
                )
            op.results[0].replace_all_uses_with(new.results[0])
            op.erase()
