"""The pass that makes uneven dimensions longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import main_function
from dtensor.passes.propagation.task import read_pins
from dtensor.passes.uneven.cheapest import cheapest
from dtensor.passes.uneven.components import lengths_of
from dtensor.passes.uneven.rewrite import Rewriter


@dataclass(frozen=True)
class PadUnevenPass(Pass):
    """Pads dimensions that layouts do not divide, so that they divide all that follows.

    A dimension, and those that operations, loops and branches tie to it, are made longer by one
    ratio. What is beyond the true end may be anything. Where it could be seen it is masked, with
    the identity of a reduction or what an operation pads with; an operation that cannot be told so
    reads the true size, and the ledger says so. Arguments and results with an uneven layout are
    padded themselves. What slices and windows leave of a split dimension, and what pads,
    joins and windows add little to, is padded too, where it is not divided, so that it stays where
    it is. What divides may stay as it is beside them: shards fetch what their results lack.

    Dimensions become longer than their layouts ask for, up to twice, so that more devices divide
    them, where a plan then takes less; and so do those of the most bytes that no layout splits, by
    a quarter. Nothing is added in proportion to what divides where a plan takes less without.
    Arguments and results are moved to another length once, where that saves more. The program is
    planned each way, but for the effort `fast`.
    """

    name: ClassVar[str] = "dtensor-pad-uneven"
    planned: bool = True  # take the lengths of the cheapest plan; false, the least alone
    poison: bool = False  # put NaN beyond the end of every value, to show that nobody reads it

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        function = main_function(module)
        graph = state.graph_of(function)
        pins = read_pins(graph, state.meshes)
        lengths = lengths_of(graph, pins)
        if lengths is None:
            return
        is_longer = bool(lengths.divisible or lengths.possible)
        is_open = is_longer or lengths.is_beside or lengths.is_refitted
        is_tried = is_open and self.planned and state.effort != "fast"
        if is_tried and state.mesh is not None:
            cheapest(module, state, lengths, self.poison).adopt(module, state)
        else:
            Rewriter(function, graph, pins, lengths, state.ledger, self.poison).run()
            state.forget_ir()
