"""What is to be planned: a program, what its user fixed, and the machine that it is for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel
from dtensor.passes.graph import Graph, Node
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.pins import Pins


@dataclass(frozen=True)
class Task:
    """A program to be laid out.

    Attributes:
        graph: values and nodes.
        pins: what the user fixed.
        mesh: the mesh.
        cost: the machine.
        min_flops: an op of more floating-point operations per device is divided wherever it can be.
        free: per value whether its producer can make any shard of it without communication:
            constants and iota read nothing; broadcasts of scalars read what every device has. They
            are cloned per distinct place when layouts are realised.
    """

    graph: Graph
    pins: Pins
    mesh: Mesh
    cost: CostModel
    min_flops: float
    free: list[bool]

    @classmethod
    def of(
        cls, graph: Graph, pins: Pins, mesh: Mesh, cost: CostModel, min_flops: float = math.inf
    ) -> Task:
        """The task of laying out a whole graph, in which any op may be left whole if not told."""
        free = [False] * len(graph.values)
        for node in graph.nodes:
            if is_free(graph, node):
                for value in node.results:
                    free[value] = True
        return cls(graph, pins, mesh, cost, min_flops, free)


def is_free(graph: Graph, node: Node) -> bool:
    """Whether the node's results cost nothing in any layout."""
    if not opdef(node.name).rematerialisable:
        return False
    return not any(graph.types[value].shape for value in node.operands)
