"""What values can come to hold: blocks ahead of sub-axes, where reshapes cut them, and parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from dtensor.dialect.layout import REDUCTIONS
from dtensor.passes.graph import CARRY, JOINTS, Graph, Node
from dtensor.passes.ops.rule import OpRule

MAX_BLOCKS = 3  # block counts offered per dimension
_MOST_SPECS = 5_000  # about, of one rank, where any are offered

BlockCounts = tuple[tuple[int, ...], ...]  # per factor or dimension, block counts to stand behind


def block_counts(
    graph: Graph, smallest: int, subaxes: int
) -> tuple[list[BlockCounts], dict[int, BlockCounts], bool]:
    """Behind how many blocks sub-axes may have to stand, per value and per node.

    Where a reshape joins or cuts dimensions, its factor has edges inside; they spread along factors
    to every dimension that carries them. Where that leads to thousands of specs, only the blocks of
    the plan at which the search starts are left: among so many, a search takes minutes, and does
    not find better plans.

    Args:
        graph: of the program.
        smallest: size of the smallest sub-axis.
        subaxes: how many of them may be used.

    Returns:
        Per value, per dimension, the block counts; per node that has any, per factor; and whether
        they were left out.
    """
    spread = _BlockSpread(graph, smallest)
    spread.run()
    values = [
        () if dims is None else tuple([tuple(sorted(d)) for d in dims]) for dims in spread.values
    ]
    if _places(values) ** subaxes > _MOST_SPECS:
        return [()] * len(values), {}, True
    nodes = {n: tuple([tuple(sorted(f)) for f in factors]) for n, factors in spread.nodes.items()}
    return values, nodes, False


def _places(values: Sequence[BlockCounts]) -> int:
    """In how many ways one sub-axis can stand on the values of one rank, at most."""
    by_rank: dict[int, set[BlockCounts]] = {}
    for blocks in values:
        by_rank.setdefault(len(blocks), set()).add(blocks)
    dims = [zip(*every, strict=True) for every in by_rank.values()]
    return max([1 + sum([1 + len(set(chain(*each))) for each in of]) for of in dims], default=1)


class _BlockSpread:
    """A worklist over nodes; only those that reshapes reach are ever looked at."""

    def __init__(self, graph: Graph, smallest: int) -> None:
        self.graph = graph
        self.smallest = smallest
        self.values: list[list[set[int]] | None] = [None] * len(graph.values)
        self.nodes: dict[int, list[set[int]]] = {}
        self._own: dict[int, list[set[int]] | None] = {}
        self.waiting: dict[int, None] = {}

    def run(self) -> None:
        for node in self.graph.nodes:
            if node.rule is not None and self._edges(node.rule) is not None:
                self.waiting[node.index] = None
        steps = 0
        while self.waiting and steps < 20 * len(self.graph.nodes):
            steps += 1
            index = next(iter(self.waiting))
            del self.waiting[index]
            self.visit(self.graph.nodes[index])

    def _edges(self, rule: OpRule) -> list[set[int]] | None:
        if id(rule) not in self._own:
            edges: list[set[int]] = [set() for _ in rule.factors]
            for dims in (*rule.operands, *rule.results):
                for m in dims:
                    if m is not None:
                        ends = (m.before, m.before * m.size)
                        size = rule.factors[m.factor].size
                        edges[m.factor].update(e for e in ends if 1 < e < size)
            self._own[id(rule)] = edges if any(edges) else None
        return self._own[id(rule)]

    def add(self, value: int, dim: int, count: int) -> None:
        """A sub-axis may have to stand behind `count` blocks of this dimension."""
        shape = self.graph.types[value].shape
        if count <= 1 or shape[dim] % (count * self.smallest):
            return
        dims = self.values[value]
        if dims is None:
            dims = self.values[value] = [set() for _ in shape]
        if count in dims[dim] or len(dims[dim]) >= MAX_BLOCKS:
            return
        dims[dim].add(count)
        graph = self.graph
        self.waiting[graph.producer[value]] = None
        for user, _ in graph.uses[value]:
            self.waiting[user] = None

    def visit(self, node: Node) -> None:
        if node.rule is not None:
            self._visit_op(node, node.rule)
        elif node.kind in JOINTS:
            sides = [*node.operands, *node.results]
            counts = {(d, c) for v in sides for d, s in enumerate(self.values[v] or ()) for c in s}
            for v in sides:
                for d, c in sorted(counts):
                    self.add(v, d, c)

    def _visit_op(self, node: Node, rule: OpRule) -> None:
        mine = self.nodes.get(node.index)
        if mine is None:
            own = self._edges(rule) or [set() for _ in rule.factors]
            mine = self.nodes[node.index] = [set(f) for f in own]
        maps = [
            (v, d, m)
            for values, sides in ((node.operands, rule.operands), (node.results, rule.results))
            for v, dims in zip(values, sides, strict=True)
            for d, m in enumerate(dims)
            if m is not None
        ]
        for v, d, m in maps:
            counts = self.values[v]
            for c in counts[d] if counts is not None else ():
                if c % m.outer == 0:
                    mine[m.factor].add(c // m.outer * m.before)
        for v, d, m in maps:
            for c in sorted(mine[m.factor]):
                if c % m.before == 0 and c // m.before < m.size:
                    self.add(v, d, m.outer * (c // m.before))


def bit(kind: str) -> int:
    """The bit that stands for a reduction."""
    return 1 << REDUCTIONS.index(kind)


def partial_kinds(graph: Graph) -> list[int]:
    """Per value the reductions of which it can come to hold parts, as bits."""
    kinds = [0] * len(graph.values)
    rules: dict[int, tuple[int, list[tuple[tuple[int, ...], int]]]] = {}
    loops = [node for node in graph.nodes if node.kind == CARRY]
    while True:
        for node in graph.nodes:
            rule = node.rule
            if rule is not None:
                if id(rule) not in rules:
                    rules[id(rule)] = _partial_facts(rule)
                found, passes = rules[id(rule)]
                for wanted, made in passes:
                    if any([w & kinds[v] for w, v in zip(wanted, node.operands, strict=True)]):
                        found |= made
            elif node.kind in JOINTS:
                found = _union(kinds, node.operands)
            else:
                continue
            for v in node.results:
                kinds[v] = found
        if all(kinds[n.results[0]] == _union(kinds, n.operands) for n in loops):
            return kinds


def _union(kinds: Sequence[int], values: Sequence[int]) -> int:
    found = 0
    for v in values:
        found |= kinds[v]
    return found


def _partial_facts(rule: OpRule) -> tuple[int, list[tuple[tuple[int, ...], int]]]:
    made = 0
    for factor in chain.from_iterable([way.factors for way in (rule, *rule.others)]):
        if factor.reduction is not None:
            made |= bit(factor.reduction)
    passes = []
    for way in rule.passes:
        wanted = tuple([0 if kind is None else bit(kind) for kind in way.operands])
        results = 0
        for kind in way.results:
            results |= 0 if kind is None else bit(kind)
        passes.append((wanted, results))
    return made, passes
