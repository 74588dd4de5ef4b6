"""Of which reductions a value can come to hold parts."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.layout import REDUCTIONS
from dtensor.passes.graph import CARRY, JOINTS, Graph
from dtensor.passes.ops.rule import OpRule


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
    for factor in rule.factors:
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
