"""Labels: the ways in which one node can use one mesh axis.

A label gives the place of the axis on every operand and result of the node. Labels derive from
the op's rule alone, so they are built once per rule and axis size and shared by all equal ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from dtensor.passes.derivation import passed_places, split_places
from dtensor.passes.graph import JOINTS, MANUAL_EDGES, MANUAL_READ, Node
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.propagation.places import WHOLE, split_of

# Whether an op with this rule has an algorithm, given the places of its operands and results.
Computes = Callable[[OpRule, tuple[int, ...], tuple[int, ...]], bool]


def anywhere(rule: OpRule, ins: tuple[int, ...], outs: tuple[int, ...]) -> bool:
    """Every op has one; or that is seen for all axes together."""
    return True


@dataclass(eq=False, slots=True)
class Label:
    """One way to use an axis; compared by identity.

    Attributes:
        ins: place of each operand.
        outs: place of each result.
        factor: the factor that is split, the dimension for a node without a rule; -1 for none.
        major: the digit `(major, n)` of the factor.
        divides: whether the node's work is divided by the axis.
        places: of operands and results together.
        is_idle: whether the axis does nothing here.
    """

    ins: tuple[int, ...]
    outs: tuple[int, ...]
    factor: int = -1
    major: int = 1
    divides: bool = False

    places: tuple[int, ...] = field(init=False)
    is_idle: bool = field(init=False)

    def __post_init__(self) -> None:
        self.places = self.ins + self.outs
        self.is_idle = all(place == WHOLE for place in self.places)


class RuleLabels:
    """The labels of one rule for an axis of `n` devices."""

    def __init__(self, rule: OpRule, n: int, computes: Computes = anywhere) -> None:
        self.rule = rule
        self._computes = computes
        self.n = n
        self.idle = Label((WHOLE,) * len(rule.operands), (WHOLE,) * len(rule.results))
        self.passes = [Label(*places) for places in passed_places(rule)]
        self._by_digit: dict[tuple[int, int], Label | None] = {}
        self._by_place: dict[tuple[int, int], tuple[Label, ...]] = {}
        self.cuts = set[int]()  # of the axis, in devices, where a part of it could be used

    def digit(self, factor: int, major: int) -> Label | None:
        """The label that splits the digit `(major, n)` of a factor; None if it cannot be."""
        key = (factor, major)
        if key not in self._by_digit:
            self._by_digit[key] = self._build(factor, major)
        return self._by_digit[key]

    def _build(self, factor: int, major: int) -> Label | None:
        rule, n = self.rule, self.n
        spec = rule.factors[factor]
        if spec.size == 0:
            return None
        places = split_places(rule, factor, major, n) if spec.size % (major * n) == 0 else None
        if places is None:
            self._note_cuts(factor, major)
            return None
        label = Label(*places, factor, major, True)
        if spec.kind.is_local or self._computes(rule, label.ins, label.outs):
            return label
        return None

    def _note_cuts(self, factor: int, major: int) -> None:
        """Remember where the axis would have to be cut for its parts, or some of them, to fit."""
        self._cut_at(self.rule.factors[factor].size, major)
        for dims in (*self.rule.operands, *self.rule.results):
            for m in dims:
                if m is not None and m.factor == factor:
                    self._cut_at(m.before, major)
                    self._cut_at(m.before * m.size, major)

    def _cut_at(self, edge: int, major: int) -> None:
        """A part of the axis, behind `major` blocks, may have to end at an edge."""
        if edge % major == 0:
            cut = math.gcd(edge // major, self.n)
            if 1 < cut < self.n:
                self.cuts.add(cut)

    def at(self, slot: int, place: int) -> tuple[Label, ...]:
        """The labels in which operand `slot`, or result `~slot` if negative, has this place."""
        key = (slot, place)
        found = self._by_place.get(key)
        if found is None:
            found = self._by_place[key] = self._find(slot, place)
        return found

    def _find(self, slot: int, place: int) -> tuple[Label, ...]:
        if place < WHOLE:
            if slot < 0:
                return ()
            return tuple(p for p in self.passes if p.ins[slot] == place)
        dim, behind = split_of(place)
        m = self.rule.map_of(slot, dim)
        major = None if m is None else m.to_factor(behind)
        if m is None or major is None:
            if m is not None:
                self._cut_at(m.outer, behind)
            return ()
        label = self.digit(m.factor, major)
        if label is None or (label.ins[slot] if slot >= 0 else label.outs[~slot]) != place:
            return ()
        return (label,)


class LabelTable:
    """Labels of all nodes for one axis size."""

    def __init__(self, n: int, computes: Computes = anywhere) -> None:
        self.n = n
        self._computes = computes
        self._rules: dict[int, RuleLabels] = {}
        self._joint: dict[tuple[int, int, int], Label] = {}
        self._idle: dict[tuple[int, int], Label] = {}

    def of_rule(self, rule: OpRule) -> RuleLabels:
        """The labels of a rule."""
        found = self._rules.get(id(rule))
        if found is None:
            found = self._rules[id(rule)] = RuleLabels(rule, self.n, self._computes)
        return found

    def rules(self) -> list[RuleLabels]:
        """The labels of every rule asked for so far."""
        return list(self._rules.values())

    def idle(self, node: Node) -> Label:
        """The label under which the axis does nothing at the node."""
        if node.rule is not None:
            return self.of_rule(node.rule).idle
        key = (len(node.operands), len(node.results))
        found = self._idle.get(key)
        if found is None:
            found = self._idle[key] = Label((WHOLE,) * key[0], (WHOLE,) * key[1])
        return found

    def joint(self, node: Node, place: int) -> Label:
        """The label that gives every operand and result of a node the same place."""
        key = (len(node.operands), len(node.results), place)
        found = self._joint.get(key)
        if found is None:
            dim, major = split_of(place) if place >= 0 else (-1, 1)
            found = Label((place,) * key[0], (place,) * key[1], dim, major, place >= 0)
            self._joint[key] = found
        return found

    def given(self, node: Node, place: int, axis: str) -> Label:
        """The label of a node that is given a layout in which the axis has this place.

        At the border of a manual region, an axis that is not free there is on the outside alone.
        """
        if place == WHOLE:
            return self.idle(node)
        if node.kind not in MANUAL_EDGES:
            return self.joint(node, place)
        slot = 0 if node.kind == MANUAL_READ else ~0
        if node.rule is not None and node.may_use(axis):
            return self.at(node, slot, place)[0]
        whole = (WHOLE,) * (len(node.operands) + len(node.results) - 1)
        return Label((place,), whole) if slot == 0 else Label(whole, (place,))

    def at(self, node: Node, slot: int, place: int) -> tuple[Label, ...]:
        """The labels of a node whose operand or result at `slot` has this place."""
        if node.rule is not None:
            return self.of_rule(node.rule).at(slot, place)
        if node.kind in JOINTS:
            return (self.joint(node, place),)
        return ()
