"""Vectors that are joined of parts, carried by loops, and cut into parts again.

`jax.flatten_util.ravel_pytree` makes one vector of several arrays, as `odeint` does of its state,
and solvers and optimisers of theirs. The shards of an array are no shards of such a vector. But
nearly all that is computed of it is computed element by element, or reduced. The same is computed
of each part by itself, which keeps its layout, and loops carry the parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, made_by, users
from dtensor.passes.forms.in_parts import PartWriter, is_cut, is_join
from dtensor.passes.graph import ARGUMENT, CARRY, CONSTRAINT, JOINTS, OP, RESULT, Graph, Node
from dtensor.passes.ops.attributes import integer, shape_of, slice_numbers
from dtensor.passes.ops.rows import passing_factors, reduced_factors
from dtensor.passes.ops.shape import regroup
from dtensor.passes.program import WHILE
from dtensor.passes.rewriting.names import CONCATENATE, RESHAPE
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import Shards
from dtensor.passes.uneven.classes import ValueDim

_MOST_PARTS = 32  # parts: each operation is written for every part

# From which element on, before which one; and what is there, along which dimension.
Stretch = tuple[int, int, Value, int]


def carry_parts(function: Rewriting) -> None:
    """Let loops carry the parts of one joined vector, if shards are known of any part."""
    if not function.named(WHILE):
        return
    graph, seen = function.shards.read(), set[ValueDim]()
    for node in graph.nodes:
        if node.kind != OP or node.name != CONCATENATE:
            continue
        place = node.results[0], integer(node.operation.attributes["dimension"])
        if place in seen:
            continue
        found = _Joined(graph)
        bounds = found.bounds(function.shards) if found.follow(place) and found.may_part() else []
        if 2 < len(bounds) <= _MOST_PARTS + 1:
            dims = {graph.values[value]: dim for value, dim in found.dims.items()}
            passing = {
                graph.nodes[k].operation: (graph.nodes[k], factor)
                for k, factor in found.passing.items()
            }
            PartWriter(function, dims, passing, bounds).write()
            return
        seen |= found.dims.items()


@dataclass
class _Joined:
    """A joined dimension, and those of other values whose elements go together with its own.

    Attributes:
        graph: the program.
        dims: which dimension of each value.
        passing: by node, the factor along which it computes each element by itself, or reduces.
        ends: the nodes that do anything else, and with which operand (or `~result`).
    """

    graph: Graph
    dims: dict[int, int] = field(default_factory=dict)
    passing: dict[int, int] = field(default_factory=dict)
    ends: list[tuple[Node, int]] = field(default_factory=list)

    def follow(self, place: ValueDim) -> bool:
        """Find all from one on; False if a value has two of them, or a node two factors."""
        graph, left = self.graph, [place]
        self.dims[place[0]] = place[1]
        while left:
            value, dim = left.pop()
            maker = graph.producer[value], ~graph.producer_slot[value]
            for index, slot in (*graph.uses[value], maker):
                for other, d in self._beside(graph.nodes[index], slot, dim):
                    if other not in self.dims:
                        left.append((other, d))
                    if self.dims.setdefault(other, d) != d:
                        return False
        return not any(node.index in self.passing for node, _ in self.ends)

    def _beside(self, node: Node, slot: int, dim: int) -> Iterator[ValueDim]:
        """The dimensions that go together with one of an operand (or `~result`) of a node."""
        if node.kind in JOINTS:
            yield from [(value, dim) for value in (*node.operands, *node.results)]
            return
        rule = node.rule if node.kind == OP else None
        m = None if rule is None else rule.map_of(slot, dim)
        if rule is None or m is None or not _parts(node, m.factor):
            self.ends.append((node, slot))
        elif self.passing.setdefault(node.index, m.factor) != m.factor:
            self.ends.append((node, slot))  # it has two of them
        else:
            for k, d in rule.dims_of_factor[m.factor]:
                yield node.operands[k] if k >= 0 else node.results[~k], d

    def may_part(self) -> bool:
        """Whether a loop carries it, and nothing needs it whole as often as the loop runs."""
        deepest = max(self.graph.weights[value] for value in self.dims)
        is_carried = any(
            self.graph.nodes[self.graph.producer[value]].kind == CARRY for value in self.dims
        )
        return is_carried and all(
            self._stretches(node, slot) is not None
            or (node.kind in (OP, ARGUMENT, RESULT, CONSTRAINT) and node.weight < deepest)
            or (slot < 0 and node.rule is not None and node.rule.is_free)
            for node, slot in self.ends
        )

    def _stretches(self, node: Node, slot: int) -> list[Stretch] | None:
        """Of what stretches a node joins the dimension, or which one it cuts out; else None."""
        if node.kind != OP:
            return None
        op, dim = (
            node.operation,
            self.dims[node.operands[slot] if slot >= 0 else node.results[~slot]],
        )
        if slot >= 0 and is_cut(op, dim):
            starts, limits, _ = slice_numbers(op)
            return [(starts[dim], limits[dim], op.results[0], dim)]
        if slot < 0 and is_join(op, dim):
            found, place = list[Stretch](), 0
            for value in op.operands:
                found.append((place, place + shape_of(value)[dim], value, dim))
                place = found[-1][1]
            return found
        return None

    def bounds(self, shards: Shards) -> list[int]:
        """Between which elements to part it: at the ends of the stretches that are split."""
        stretches = [each for end in self.ends for each in self._stretches(*end) or ()]
        split = [
            (start, end) for start, end, value, dim in stretches if _is_split(shards, value, dim)
        ]
        first = next(iter(self.dims))
        size = self.graph.types[first].shape[self.dims[first]]
        places = {place for start, end, *_ in stretches for place in (start, end)}
        kept = {place for place in places if any(a <= place <= b for a, b in split)}
        return sorted({0, size, *kept}) if split else []


def _parts(node: Node, factor: int) -> bool:
    """Whether a node may be applied to each part of a factor by itself."""
    assert node.rule is not None, "it has factors"
    op = node.operation
    return factor in passing_factors(node.rule, op) or factor in reduced_factors(node.rule, op)


def _is_split(shards: Shards, value: Value, dim: int) -> bool:
    """Whether layouts are known to split a dimension, or what a reshape makes of it, or it of."""
    maker = made_by(RESHAPE, value)
    places = [(value, dim)]
    if maker is not None:
        places += _regrouped(value, dim, maker.operands[0])
    for user in users(value):
        if user.name == RESHAPE:
            places += _regrouped(value, dim, user.results[0])
    return shards.splits(*places)


def _regrouped(value: Value, dim: int, other: Value) -> list[tuple[Value, int]]:
    """The dimensions of a reshape of a value that have the elements of one of its own."""
    groups = regroup(tuple(shape_of(value)), tuple(shape_of(other)))
    return [(other, d) for dims, others in groups if dim in dims for d in others]
