"""The strategies of an operation, from the labels of its rule: one label for each sub-axis.

A label splits a factor, passes partial values on, or does nothing. Sub-axes that split one factor
stand in every order; where a reshape cuts a dimension into blocks, a sub-axis may also stand behind
those blocks (`block_counts`). A sub-axis that is held has one place on every operand and result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product, repeat

from dtensor.passes.ops.rule import OpRule
from dtensor.passes.planning.all_places import SubAxes, uses, words
from dtensor.passes.planning.blocks import BlockCounts
from dtensor.passes.planning.options import Strategy
from dtensor.passes.propagation.labels import Label, LabelTable, RuleLabels
from dtensor.passes.propagation.places import WHOLE
from dtensor.passes.sharding.specs import RankSpecs, Specs

Word = tuple[tuple[int, int], ...]  # per sub-axis its number and where it stands in a factor
Held = tuple[tuple[int, ...] | None, ...]  # per sub-axis its places on a node; None if it may move


class JointLabels:
    """Puts labels of all sub-axes together.

    Attributes:
        together: whether the sub-axes of a mesh axis all do the same.
    """

    def __init__(self, specs: Specs, groups: SubAxes) -> None:
        self.specs = specs
        self.together = False
        self._groups = groups
        self._tables = {n: LabelTable(n) for n in set(specs.sizes)}
        self._words: dict[object, list[Word]] = {}

    def of(
        self,
        rule: OpRule,
        blocks: BlockCounts,
        passes: tuple[int, ...],
        may_use: tuple[bool, ...],
        held: Held,
    ) -> tuple[Strategy, ...]:
        """All strategies, in the order that decides among equals.

        Args:
            rule: of the operation.
            blocks: per factor, behind how many blocks a sub-axis may stand.
            passes: numbers of the rule's ways to pass partial values on that may be used.
            may_use: per sub-axis, whether it may be used.
            held: per sub-axis its places, if it stays.
        """
        labels = [self._tables[n].of_rule(rule) for n in self.specs.sizes]
        ranks = ([len(d) for d in rule.operands], [len(d) for d in rule.results])
        sides = tuple([[self.specs.rank(r) for r in side] for side in ranks])
        usable = [f for f in range(len(rule.factors)) if rule.dims_of_factor[f]]
        choices = [-1, *usable, *(~(p + 1) for p in passes)]
        ways = [
            (choices if used else [-1]) if places is None else _choices(mine, places, passes)
            for used, places, mine in zip(may_use, held, labels, strict=True)
        ]
        alone = [{choice: _label(mine, choice, 1) for choice in choices} for mine in labels]
        found: dict[Strategy, None] = {}
        for combination in uses(ways, self._groups, self.together):
            split = [choice for choice in combination if choice >= 0]
            if len(set(split)) == len(split) and not any([blocks and blocks[f] for f in split]):
                options = [[of[choice] for of, choice in zip(alone, combination, strict=True)]]
            else:
                options = [
                    [
                        _label(mine, choice, majors.get(axis, 1))
                        for axis, (mine, choice) in enumerate(zip(labels, combination, strict=True))
                    ]
                    for majors in self._majors(rule, combination, blocks)
                ]
            for chosen in options:
                strategy = self._joint(chosen, held, *sides)
                if strategy is not None:
                    found[strategy] = None
        return tuple(sorted(found, key=_shared_dimensions(*sides)))

    def _majors(
        self, rule: OpRule, combination: Sequence[int], blocks: BlockCounts
    ) -> Iterator[dict[int, int]]:
        """Where the sub-axes that split factors can stand in them: every order, behind blocks."""
        by_factor: dict[int, list[int]] = {}
        for axis, choice in enumerate(combination):
            if choice >= 0:
                by_factor.setdefault(choice, []).append(axis)
        options = [
            self._orders(rule.factors[f].size, blocks[f] if blocks else (), tuple(axes))
            for f, axes in by_factor.items()
        ]
        for picked in product(*options):
            yield {axis: major for word in picked for axis, major in word}

    def _orders(self, size: int, blocks: tuple[int, ...], axes: tuple[int, ...]) -> list[Word]:
        """The orders in which some sub-axes can split a factor: see `words`."""
        key = (size, blocks, axes, self.together)
        found = self._words.get(key)
        if found is None:
            orders = words(size, blocks, axes, self.specs.sizes, self._groups, self.together)
            found = self._words[key] = list(orders)
        return found

    def _joint(
        self,
        chosen: Sequence[Label | None],
        held: Held,
        operands: Sequence[RankSpecs],
        results: Sequence[RankSpecs],
    ) -> Strategy | None:
        """One strategy of one label per sub-axis.

        Returns:
            None if a sub-axis does not fit or would not stay, or if a tensor would mix reductions.
        """
        labels = []
        for label, places in zip(chosen, held, strict=True):
            if label is None or (places is not None and label.places != places):
                return None
            labels.append(label)
        return strategy_of(labels, operands, results, self.specs.sizes)


def _choices(labels: RuleLabels, places: tuple[int, ...], passes: Sequence[int]) -> Sequence[int]:
    """The ways to use a sub-axis that may have these places; as `_label` numbers them."""
    if places == labels.idle.places:
        return [-1]
    split = next((k for k, place in enumerate(places) if place > WHOLE), None)
    if split is None:
        return [~(p + 1) for p in passes if labels.passes[p].places == places]
    count = len(labels.rule.operands)
    slot = split if split < count else ~(split - count)
    return [label.factor for label in labels.at(slot, places[split])]


def _label(labels: RuleLabels, choice: int, major: int) -> Label | None:
    if choice == -1:
        return labels.idle
    if choice < -1:
        return labels.passes[~choice - 1]
    return labels.digit(choice, major)


def strategy_of(
    labels: Sequence[Label],
    operands: Sequence[RankSpecs],
    results: Sequence[RankSpecs],
    sizes: Sequence[int],
) -> Strategy | None:
    """One strategy of a label per sub-axis; None if a value would be partial in several ways."""
    split = math.prod([n for label, n in zip(labels, sizes, strict=True) if label.divides])
    ins = _spec_numbers(operands, [label.ins for label in labels])
    outs = _spec_numbers(results, [label.outs for label in labels])
    return None if ins is None or outs is None else Strategy(ins, outs, split)


def _spec_numbers(
    sides: Sequence[RankSpecs], places: Sequence[tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The specs of some tensors, from the places of each sub-axis on all; None for mixed parts."""
    found = []
    columns = zip(*places, strict=True) if places else repeat(())
    for specs, mine in zip(sides, columns, strict=False):
        if min(mine, default=WHOLE) < WHOLE and len({p for p in mine if p < WHOLE}) > 1:
            return None
        found.append(specs.of(mine))
    return tuple(found)


def _shared_dimensions(
    operands: Sequence[RankSpecs], results: Sequence[RankSpecs]
) -> Callable[[Strategy], int]:
    """How many sub-axes stand behind others in a dimension; fewer win among equals."""
    sides = (*operands, *results)

    def count(strategy: Strategy) -> int:
        specs = zip(sides, (*strategy.ins, *strategy.outs), strict=True)
        return sum([side.shared[spec] for side, spec in specs])

    return count
