"""Forms that say in a roundabout way what a program does by the order of its elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import main_function
from dtensor.passes.orders.places import mark_places
from dtensor.passes.program import walk


@dataclass(frozen=True)
class FindOrdersPass(Pass):
    """Finds what a program does by the order of its elements.

    A sort of which one operand counts the places of the elements says so: where elements are equal
    it decides, and nothing else need be sent to keep the sort stable.
    """

    name: ClassVar[str] = "dtensor-find-orders"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        for op, name, _ in list(walk(main_function(module))):
            if name == "stablehlo.sort":
                mark_places(op)
