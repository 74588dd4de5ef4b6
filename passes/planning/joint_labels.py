"""The strategies of an operation, from the labels of its rule: one label for each sub-axis.

A label splits a factor, passes partial values on, or does nothing. Sub-axes that split one factor
stand in every order; where a reshape cuts a dimension into blocks, a sub-axis may also stand behind
those blocks (`block_counts`). A sub-axis that is held has few places on every operand and result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from dtensor.passes.ops.rule import OpRule
from dtensor.passes.planning.all_places import Majors, SubAxes, uses, words
from dtensor.passes.planning.blocks import BlockCounts
from dtensor.passes.planning.options import Strategy
from dtensor.passes.propagation.labels import Label, LabelTable, RuleLabels
from dtensor.passes.propagation.places import WHOLE
from dtensor.passes.sharding.specs import RankSpecs, Specs

Word = tuple[tuple[int, int], ...]  # per sub-axis its number and where it stands in a factor
# Per sub-axis the places on a node that it may have; None for any.
Held = tuple[tuple[tuple[int, ...], ...] | None, ...]
# Ways to use a sub-axis, as `_label` numbers them, and where in a factor it may then stand.
Choices = Mapping[int, tuple[int, ...]]


class JointLabels:
    """Puts labels of all sub-axes together.

    Attributes:
        together: whether the sub-axes of a group all do the same.
        groups: of sub-axes; those of one mesh axis, say.
    """

    def __init__(self, specs: Specs, groups: SubAxes) -> None:
        self.specs = specs
        self.together = False
        self.groups = groups
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
            held: per sub-axis the places on the node that it may have; None for any.
        """
        labels = [self._tables[n].of_rule(rule) for n in self.specs.sizes]
        ranks = ([len(d) for d in rule.operands], [len(d) for d in rule.results])
        reads, makes = ([self.specs.rank(r) for r in side] for side in ranks)
        usable = [f for f in range(len(rule.factors)) if rule.dims_of_factor[f]]
        choices = [-1, *usable, *(~(p + 1) for p in passes)]
        kept = {
            axis: _choices(labels[axis], places, passes)
            for axis, places in enumerate(held)
            if places is not None
        }
        ways = [
            list(kept.get(axis, choices if used else (-1,))) for axis, used in enumerate(may_use)
        ]

        def label(axis: int, choice: int, major: int) -> Label | None:
            """The label of a sub-axis, unless it does not fit or would not stay."""
            found, stays = _label(labels[axis], choice, major), held[axis]
            return found if found and (stays is None or found.places in stays) else None

        alone = [{c: label(axis, c, 1) for c in way} for axis, way in enumerate(ways)]
        blocked = {factor for factor, ahead in enumerate(blocks) if ahead}
        found: dict[Strategy, None] = {}
        extents = [factor.size for factor in rule.factors]
        for combination in uses(ways, self.groups, self.specs.sizes, extents, self.together):
            split = [choice for choice in combination if choice >= 0]
            if len(set(split)) == len(split) and blocked.isdisjoint(split):
                options = [[of[choice] for of, choice in zip(alone, combination, strict=True)]]
            else:
                options = [
                    [label(axis, c, majors.get(axis, 1)) for axis, c in enumerate(combination)]
                    for majors in self._majors(rule, combination, blocks, kept)
                ]
            for chosen in options:
                fitting = [each for each in chosen if each is not None]
                if len(fitting) == len(chosen):
                    strategy = strategy_of(fitting, reads, makes, self.specs.sizes)
                    if strategy is not None:
                        found[strategy] = None
        return tuple(sorted(found, key=_shared_dimensions(reads, makes)))

    def _majors(
        self,
        rule: OpRule,
        combination: Sequence[int],
        blocks: BlockCounts,
        kept: Mapping[int, Choices],
    ) -> Iterator[dict[int, int]]:
        """Where the sub-axes that split factors can stand in them: every order, behind blocks."""
        by_factor: dict[int, list[int]] = {}
        for axis, choice in enumerate(combination):
            if choice >= 0:
                by_factor.setdefault(choice, []).append(axis)
        options = [
            self._orders(
                rule.factors[f].size,
                blocks[f] if blocks else (),
                tuple(axes),
                {axis: of.get(f, ()) for axis, of in kept.items()},
            )
            for f, axes in by_factor.items()
        ]
        for picked in product(*options):
            yield {axis: major for word in picked for axis, major in word}

    def _orders(
        self, size: int, blocks: tuple[int, ...], axes: tuple[int, ...], majors: Majors
    ) -> list[Word]:
        """The orders in which some sub-axes can split a factor: see `words`."""
        key = (size, blocks, axes, self.together, tuple(majors.items()))
        found = self._words.get(key)
        if found is None:
            sizes, together = self.specs.sizes, self.together
            orders = words(size, blocks, axes, sizes, self.groups, together, majors)
            found = self._words[key] = list(orders)
        return found


def _choices(labels: RuleLabels, held: Sequence[tuple[int, ...]], passes: Sequence[int]) -> Choices:
    """The ways to use a sub-axis that may have these places."""
    found: dict[int, tuple[int, ...]] = {}
    for places in held:
        split = next((k for k, place in enumerate(places) if place > WHOLE), None)
        if places == labels.idle.places:
            found[-1] = ()
        elif split is None:
            found.update({~(p + 1): () for p in passes if labels.passes[p].places == places})
        else:
            count = len(labels.rule.operands)
            slot = split if split < count else ~(split - count)
            for label in labels.at(slot, places[split]):
                found[label.factor] = (*found.get(label.factor, ()), label.major)
    return found


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
    rows = [label.places for label in labels]
    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(operands) + len(results))
    for column in columns:
        if min(column, default=WHOLE) < WHOLE and len({p for p in column if p < WHOLE}) > 1:
            return None
    pairs = zip((*operands, *results), columns, strict=True)
    numbers = tuple([side.of(column) for side, column in pairs])
    split = math.prod([n for label, n in zip(labels, sizes, strict=True) if label.divides])
    return Strategy(numbers[: len(operands)], numbers[len(operands) :], split)


def _shared_dimensions(
    operands: Sequence[RankSpecs], results: Sequence[RankSpecs]
) -> Callable[[Strategy], int]:
    """How many sub-axes stand behind others in a dimension; fewer win among equals."""
    sides = (*operands, *results)

    def count(strategy: Strategy) -> int:
        specs = zip(sides, (*strategy.ins, *strategy.outs), strict=True)
        return sum([side.shared[spec] for side, spec in specs])

    return count
