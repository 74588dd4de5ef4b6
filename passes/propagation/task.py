"""What is to be planned: a program, what its user fixed, and the machine that it is for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel
from dtensor.passes.graph import ARGUMENT, Graph, Node
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
        constant: per value whether constants and scalars alone say what it is, so that any device
            could compute all of it: masks, tables of angles, random numbers of a key.
    """

    graph: Graph
    pins: Pins
    mesh: Mesh
    cost: CostModel
    min_flops: float
    free: list[bool]
    constant: list[bool]

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
        return cls(graph, pins, mesh, cost, min_flops, free, constants(graph))


def is_free(graph: Graph, node: Node) -> bool:
    """Whether the node's results cost nothing in any layout."""
    if not opdef(node.name).rematerialisable:
        return False
    return not any(graph.types[value].shape for value in node.operands)


def constants(graph: Graph) -> list[bool]:
    """Per value whether it follows from constants and scalars, around loops too."""
    found = [True] * len(graph.values)
    changed = True
    while changed:
        changed = False
        for node in graph.nodes:
            if node.kind != ARGUMENT and all([found[value] for value in node.operands]):
                continue
            for value in node.results:
                if found[value] and graph.types[value].shape:
                    found[value], changed = False, True
    return found
