"""Which dimensions become longer together, and how long.

Dimensions that one factor of an operation walks along have elements at the same indices; a longer
one makes the others longer in proportion. They, and those tied by loops, branches and constraints,
form a component, all of whose dimensions are padded by the same ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dtensor.dialect.diagnostics import error
from dtensor.dialect.dim import Dim
from dtensor.passes.graph import CARRY, CONSTRAINT, JOIN, OP, THROUGH, Graph, Node
from dtensor.passes.ops.padding import Fill, Shape
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.pins import Pins

TIES = (CONSTRAINT, CARRY, JOIN, THROUGH)  # operands and results are one value


@dataclass
class Lengths:
    """How long the dimensions of each value become.

    Attributes:
        shapes: per value the shape that its users may see, in elements.
        words: per value, and each of its dimensions that become longer, how all layouts that
            split it do so; None where they differ, and where it stays.
        fills: per node and factor, what must stand beyond the end of the dimensions that the
            factor walks; a factor that is missing must not be longer.
    """

    shapes: list[Shape]
    words: list[tuple[Dim | None, ...]] = field(default_factory=list)
    fills: dict[tuple[int, int], Fill] = field(default_factory=dict)


def lengths_of(graph: Graph, pins: Pins) -> Lengths | None:
    """How long dimensions become so that all layouts divide them; None if all do already."""
    if not any(_uneven_dims(graph, pins, graph.nodes[index]) for index in pins.layouts):
        return None
    places = _Places(graph)
    lengths = Lengths([info.shape for info in graph.types])
    for node in graph.nodes:
        if node.kind in TIES:
            places.tie([*node.operands, *node.results])
        elif node.kind == OP and node.rule is not None:
            _join_factors(node, node.rule, places, lengths)
    asked = _asked(graph, pins, places)
    ratios = _ratios(graph, pins, places, asked)
    words = {root: _word(asked[root]) for root in ratios}
    for value, info in enumerate(graph.types):
        roots = [places.root(value, d) for d in range(len(info.shape))]
        lengths.shapes[value] = tuple(
            int(size * ratios.get(root, 1)) for root, size in zip(roots, info.shape, strict=True)
        )
        lengths.words.append(tuple([words.get(root) for root in roots]))
    return lengths


def check_even(graph: Graph, pins: Pins) -> None:
    """Refuse layouts that do not divide, where nothing has been padded.

    Raises:
        LocatedError: one does not.
    """
    for index, layout in pins.layouts.items():
        node = graph.nodes[index]
        if _uneven_dims(graph, pins, node):
            problem = layout.problem(graph.types[node.subject].shape)
            assert node.operation is not None
            error(
                node.operation,
                f"{node.kind} has the layout {layout.short()}: {problem}; or run "
                "dtensor-pad-uneven before",
            )


def _uneven_dims(graph: Graph, pins: Pins, node: Node) -> list[int]:
    """The dimensions of a node's value that its layout does not divide."""
    shape = graph.types[node.subject].shape
    dims = pins.layouts[node.index].dims
    return [d for d, (size, dim) in enumerate(zip(shape, dims, strict=False)) if size % dim.split]


class _Places:
    """The dimensions of all values, in classes that grow by one ratio."""

    def __init__(self, graph: Graph) -> None:
        self.first = [0]
        for info in graph.types:
            self.first.append(self.first[-1] + len(info.shape))
        self.sizes = [size for info in graph.types for size in info.shape]
        self.parent = list(range(self.first[-1]))
        self.graph = graph

    def root(self, value: int, dim: int) -> int:
        """The class of a dimension."""
        return self._find(self.first[value] + dim)

    def _find(self, place: int) -> int:
        parent = self.parent
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    def join(self, places: Sequence[tuple[int, int]]) -> None:
        """Make dimensions grow together."""
        roots = [self.root(*place) for place in places]
        for root in roots[1:]:
            self.parent[self._find(root)] = self._find(roots[0])

    def tie(self, values: Sequence[int]) -> None:
        """Make values of one shape grow together, along every dimension."""
        for d in range(len(self.graph.types[values[0]].shape)):
            self.join([(value, d) for value in values])


def _join_factors(node: Node, rule: OpRule, places: _Places, lengths: Lengths) -> None:
    padding = opdef(node.name).padding
    if padding is None:
        return
    for f in range(len(rule.factors)):
        fill = padding.holds(rule, f)
        carriers = _carriers(node, rule, f, padding.regroups)
        if fill is not None and carriers:
            lengths.fills[node.index, f] = fill
            places.join(carriers)


def _carriers(node: Node, rule: OpRule, factor: int, regroups: bool) -> list[tuple[int, int]]:
    """The `(value, dimension)` pairs of which a factor walks all, the major ones; none if mixed."""
    found = []
    for k, d in rule.dims_of_factor[factor]:
        m = (rule.operands[k] if k >= 0 else rule.results[~k])[d]
        assert m is not None
        if m.outer != 1 or (m.size != rule.factors[factor].size and not regroups):
            return []
        if m.before == 1:
            found.append((node.operands[k] if k >= 0 else node.results[~k], d))
    return found


def _asked(graph: Graph, pins: Pins, places: _Places) -> dict[int, list[tuple[int, Dim]]]:
    """By class, the sizes of dimensions, and what each is split over by the layouts given."""
    asked: dict[int, list[tuple[int, Dim]]] = {}
    for index, layout in pins.layouts.items():
        value = graph.nodes[index].subject
        for d, dim in enumerate(layout.dims):
            if dim.split > 1:
                row = asked.setdefault(places.root(value, d), [])
                row.append((graph.types[value].shape[d], Dim(dim.digits)))
    return asked


def _word(asked: Sequence[tuple[int, Dim]]) -> Dim | None:
    words = {dim for _, dim in asked}
    return asked[0][1] if len(words) == 1 else None


def _ratios(
    graph: Graph, pins: Pins, places: _Places, asked: dict[int, list[tuple[int, Dim]]]
) -> dict[int, Fraction]:
    """By class, how many times longer its dimensions become; those that stay are missing."""
    uneven = {
        places.root(graph.nodes[index].subject, d): None
        for index in pins.layouts
        for d in _uneven_dims(graph, pins, graph.nodes[index])
    }
    members: dict[int, set[int]] = {root: set() for root in uneven}
    for place in range(len(places.parent)):
        root = places._find(place)
        if root in members:
            members[root].add(places.sizes[place])
    found = {}
    for root in uneven:
        size = places.sizes[root]
        whole = [(n, 1) for n in sorted(members[root])]
        parts = [(n, dim.split) for n, dim in asked[root]]
        step = math.lcm(*[_step(size, n, count) for n, count in (*parts, *whole)])
        found[root] = Fraction(-(-size // step) * step, size)
    return found


def _step(size: int, other: int, parts: int) -> int:
    """What the length of a dimension of `size` elements must be a multiple of.

    So that one of `other` elements, made longer by the same ratio, falls into `parts`.
    """
    return parts * size // math.gcd(parts * size, other)
