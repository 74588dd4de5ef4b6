"""What operations tie: which of their dimensions grow together, or are split alike.

A factor that walks along dimensions at equal indices joins them; what it does not say, operations
say of themselves (`OpDef.padding`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dtensor.passes.graph import OP, Graph, Node
from dtensor.passes.ops.padding import Along, Fill, Padding, TiedDims, Ties, in_proportion
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.uneven.classes import ValueDim

Tied = tuple[Node, TiedDims]
Carriers = list[tuple[int, int]]  # operands (or ~results) and one dimension of each
OfRule = tuple[list[TiedDims], list[TiedDims], list[TiedDims]]  # tied, split alike, and even


def find_ties(
    graph: Graph, splits: set[int], is_uneven: bool, may_stay: bool
) -> tuple[list[Tied], list[Tied], list[Tied]]:
    """What operations tie besides, what they split alike, and what divides as it is.

    The first two are of what does not divide, if all that is given does. Of what divides, too, is
    split alike what is of the same length, and what little is cut from or added to: so what is cut
    out of it, or read of it in rows that are not divided, is known to be split.

    Args:
        graph: the program.
        splits: into how many parts layouts given split dimensions.
        is_uneven: whether one of them does not divide.
        may_stay: whether what divides may stay as it is beside what grows.
    """
    ties, alike, even = list[Tied](), list[Tied](), list[Tied]()
    known: dict[int, OfRule] = {}  # of ops with one rule
    for node in graph.nodes if splits else ():
        if node.kind != OP or node.rule is None:
            continue
        of_rule = known.get(id(node.rule))
        if of_rule is None:
            of_rule = _ties_of(graph, node, node.rule, splits, is_uneven, may_stay)
            known[id(node.rule)] = of_rule
        for found, those in zip((ties, alike, even), of_rule, strict=True):
            if those:
                found += [(node, tie) for tie in those]
    return ties, alike, even


def _ties_of(
    graph: Graph, node: Node, rule: OpRule, splits: set[int], is_uneven: bool, may_stay: bool
) -> OfRule:
    """What `find_ties` says of one operation."""
    ties, alike, even = list[TiedDims](), list[TiedDims](), list[TiedDims]()
    padding, op = opdef(node.name).padding or Padding(), node.info
    said = [(tie, ties) for tie in _said(op, padding.ties)]
    near = _said(op, padding.alike)
    said += [(tie, alike) for tie in near if may_stay or not in_proportion(op, tie)]

    def sizes_of(tie: TiedDims) -> set[int]:
        return {graph.types[value].shape[d] for value, d in places_of(node, tie)}

    def divides(sizes: set[int]) -> bool:
        return not any(size % split for size in sizes for split in splits)

    for tie, found in said:
        sizes = sizes_of(tie)
        if is_uneven or not divides(sizes):
            found.append(tie)
        may_divide = any(not any(size % split for size in sizes) for split in splits)
        if may_divide and (found is alike or len(sizes) == 1 < len(tie)):
            even.append(tie)
    ties += _mixed_ties(node, rule, splits) if may_stay else ()
    for carriers in () if regroups(node) else _resized_dims(rule):
        tie = tuple([Along(k, d) for k, d in carriers])
        sizes = sizes_of(tie)
        if len(sizes) > 1 and divides(sizes):
            even.append(tie)
    return ties, alike, even


def _said(op: OpInfo, find: Ties | None) -> Sequence[TiedDims]:
    return () if find is None else find(op)


def _mixed_ties(node: Node, rule: OpRule, splits: set[int]) -> Iterator[TiedDims]:
    """What a reshape makes of what, where one divides and the other does not."""
    for fill, carriers in walked(node, rule):
        if is_mixed(node, carriers, splits):
            lengths = [node.info.shape(k)[d] for k, d in carriers]
            unit = math.gcd(*lengths)
            pairs = zip(carriers, lengths, strict=True)
            yield tuple([Along(k, d, size // unit, fill) for (k, d), size in pairs])


def is_mixed(node: Node, carriers: Carriers, splits: set[int]) -> bool:
    """Whether dimensions that walk together are of several sizes, and some alone divide."""
    divide = {not any(node.info.shape(k)[d] % n for n in splits) for k, d in carriers}
    return len(divide) > 1


def _resized_dims(rule: OpRule) -> Iterator[Carriers]:
    for f, factor in enumerate(rule.factors):
        found = major_dims(rule, f)
        sizes = {m.outer * m.size for at in found if (m := rule.map_of(*at)) is not None}
        if factor.kind is FactorKind.WINDOW or len(sizes) > 1:
            yield found


def major_dims(rule: OpRule, factor: int) -> Carriers:
    """The dimensions whose shards are those of a factor, which is local or of windows."""
    kind = rule.factors[factor].kind
    if not kind.is_local and kind is not FactorKind.WINDOW:
        return []
    carriers = rule.dims_of_factor[factor]
    return [at for at in carriers if (m := rule.map_of(*at)) is not None and m.before == 1]


def regroups(node: Node) -> bool:
    """Whether an operation joins dimensions or takes them apart, and moves no element."""
    padding = opdef(node.name).padding
    return padding is not None and padding.regroups


def walked(node: Node, rule: OpRule) -> Iterator[tuple[Fill | Reduction, Carriers]]:
    """What factors walk along and may be longer, with what must stand beyond the end."""
    padding = opdef(node.name).padding
    if padding is None:
        return
    for f, factor in enumerate(rule.factors):
        fill = padding.holds(rule, f)
        carriers = _carriers(rule, f, padding.regroups)
        if fill is None or not carriers:
            continue
        held = factor.reduction if fill is Fill.IDENTITY else fill
        assert held is not None, "the identity of no reduction"
        yield held, carriers


def _carriers(rule: OpRule, factor: int, regroups: bool) -> Carriers:
    """The dimensions of which a factor walks all, the major ones; none if of some but parts."""
    found = []
    for k, d in rule.dims_of_factor[factor]:
        m = rule.map_of(k, d)
        assert m is not None
        if m.outer != 1 or (m.size != rule.factors[factor].size and not regroups):
            return []
        if m.before == 1:
            found.append((k, d))
    return found


def find_moves(graph: Graph, splits: set[int]) -> list[Tied]:
    """Dimensions that must be whole, each with those of the others that the axes divide."""
    found: list[Tied] = []
    for node, padding in padded_ops(graph) if splits else ():
        if padding.moves is not None:
            whole, *others = padding.moves(node.info)
            taking = [along for along in others if _divides(graph, node, along, splits)]
            found.append((node, (whole, *taking)))
    return found


def _divides(graph: Graph, node: Node, along: Along, splits: set[int]) -> bool:
    value, d = place_at(node, along.slot, along.dim)
    return not any(graph.types[value].shape[d] % split for split in splits)


def padded_ops(graph: Graph) -> Iterator[tuple[Node, Padding]]:
    """The operations that cope with elements beyond the end of a dimension, and how."""
    for node in graph.nodes:
        padding = opdef(node.name).padding if node.kind == OP else None
        if padding is not None and node.rule is not None:
            yield node, padding


def place_at(node: Node, slot: int, dim: int) -> ValueDim:
    """A dimension of an operand (or ~result) of a node."""
    return node.operands[slot] if slot >= 0 else node.results[~slot], dim


def places_of(node: Node, tie: TiedDims) -> list[ValueDim]:
    """The dimensions that a tie is of."""
    return [place_at(node, along.slot, along.dim) for along in tie]
