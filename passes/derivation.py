"""What the rule of one operation derives: in which layouts it may read and write.

Each mesh axis, or part of one, stands on the operands and results of an operation as one digit of
one factor, or as one way to compute on parts, or nowhere. Where it stands on one is its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.rule import DimMap, OpRule
from dtensor.passes.propagation.places import (
    WHOLE,
    Places,
    partial_place,
    place_kind,
    place_of,
    split_of,
    split_place,
)
from dtensor.passes.relayout.sub_axes import axis_cuts

Layouts = tuple[Layout, ...]

REMEDY = "let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout"


def fit(dims: Sequence[DimMap | None], factor: int, major: int, n: int) -> int | None:
    """The place that the digit `(major, n)` of a factor has on a tensor.

    Returns:
        A split; WHOLE where the tensor does not carry the factor; None where the digit straddles
        two dimensions or does not divide.
    """
    carried = False
    for d, m in enumerate(dims):
        if m is None or m.factor != factor:
            continue
        carried = True
        behind = m.to_dim(major)
        if behind is not None and m.size % (major // m.before * n) == 0:
            return split_place(d, behind)
    return None if carried else WHOLE


def split_places(rule: OpRule, factor: int, major: int, n: int) -> tuple[Places, Places] | None:
    """The places on operands and results of an axis that splits the digit `(major, n)` of a factor.

    None where the digit fits one of the tensors nowhere.
    """
    spec = rule.factors[factor]
    ins, outs = (
        [place for dims in side if (place := fit(dims, factor, major, n)) is not None]
        for side in (rule.operands, rule.results)
    )
    if len(ins) < len(rule.operands) or len(outs) < len(rule.results):
        return None
    if spec.reduction is not None:
        part = partial_place(spec.reduction)
        for k in spec.partial_operands:
            ins[k] = part
        outs = [part if place == WHOLE else place for place in outs]
    return tuple(ins), tuple(outs)


def passed_places(rule: OpRule) -> list[tuple[Places, Places]]:
    """The places of an axis over which the operation maps parts to parts."""
    return [
        (tuple(map(_part, passed.operands)), tuple(map(_part, passed.results)))
        for passed in rule.passes
    ]


def _part(kind: str | None) -> int:
    return WHOLE if kind is None else partial_place(kind)


@dataclass
class Checker:
    """Whether rules derive layouts; each combination is judged once.

    Attributes:
        rules: name and rule of each operation by the id in its location; only as long as no C++
            pass has run, which could give an id to another operation.
    """

    rules: dict[int, tuple[str, OpRule | None]] = field(default_factory=dict)
    _right: dict[tuple[int, Layouts, Layouts], OpRule | None] = field(default_factory=dict)
    _known: dict[Layout, Layout] = field(default_factory=dict)

    def known(self, layout: Layout) -> Layout:
        """The same layout as one object, which is faster to compare."""
        return self._known.setdefault(layout, layout)

    def is_right(self, rule: OpRule | None, operands: Layouts, results: Layouts) -> bool:
        """Whether these layouts were found right before."""
        return (id(rule), operands, results) in self._right

    def check(
        self, op: ir.Operation, name: str, rule: OpRule | None, operands: Layouts, results: Layouts
    ) -> None:
        """Raise a located error if the rule does not derive these layouts."""
        found = _problem(rule, operands, results)
        for other in () if rule is None else rule.others:
            found = found and _problem(other, operands, results) and found
        if found is not None:
            error(op, f"'{name}' {found}; {REMEDY}")
        operands, results = (tuple(map(self.known, side)) for side in (operands, results))
        self._right[id(rule), operands, results] = rule  # kept alive: its id stays its own


def _problem(rule: OpRule | None, operands: Layouts, results: Layouts) -> str | None:
    sub_axes = sub_axes_of((*operands, *results))
    if not sub_axes:
        return None
    if rule is None:
        return f"has no rule, but is laid out {_sides(operands, results)}: all must be whole"
    count = len(operands)
    if count != len(rule.operands) or len(results) != len(rule.results):
        return f"has layouts for {count} operands and {len(results)} results"
    for layout in (*operands, *results):
        if len(layout.partial) > 1 and len({kind for _, kind in layout.partial}) > 1:
            return f"has a value that is partial in several ways, {layout.short()}"
    digits: list[tuple[int, int, int]] = []
    for sub_axis in sub_axes:
        ins, outs = (tuple([place_of(x, sub_axis) for x in side]) for side in (operands, results))
        digit = _digit(rule, ins, outs)
        if (ins, outs) not in _derived(rule, digit, sub_axis.size):
            return _unlike(rule, sub_axis, ins, outs, digit)
        if digit is not None:
            digits.append((*digit, sub_axis.size))
    return _overlap(digits) if len(digits) > 1 else None


def _overlap(digits: list[tuple[int, int, int]]) -> str | None:
    for (factor, major, size), (other, ahead, _) in pairwise(sorted(digits)):
        if factor == other and ahead % (major * size):
            return "divides one of its factors twice at the same digits"
    return None


def sub_axes_of(layouts: Layouts) -> list[AxisRef]:
    """The parts of axes that these layouts tell apart."""
    return [
        AxisRef(name, low, high // low)
        for name, cuts in axis_cuts(*layouts).items()
        for low, high in pairwise(sorted(cuts))
        if high % low == 0
    ]


def _digit(rule: OpRule, ins: Places, outs: Places) -> tuple[int, int] | None:
    """The `(factor, blocks ahead)` that the axis splits, as the first tensor that is split says."""
    for dims, place in zip((*rule.operands, *rule.results), (*ins, *outs), strict=True):
        if place > WHOLE:
            dim, behind = split_of(place)
            carried = dims[dim]
            major = None if carried is None else carried.to_factor(behind)
            return None if carried is None or major is None else (carried.factor, major)
    return None


def _derived(
    rule: OpRule, digit: tuple[int, int] | None, n: int
) -> Iterator[tuple[Places, Places]]:
    """The places on operands and results that the rule derives: of a digit, or of parts."""
    if digit is None:
        yield (WHOLE,) * len(rule.operands), (WHOLE,) * len(rule.results)
        yield from passed_places(rule)
        return
    factor, major = digit
    if rule.factors[factor].size % (major * n) == 0:
        found = split_places(rule, factor, major, n)
        yield from [] if found is None else [found]


# What is wrong, in words.


def _unlike(
    rule: OpRule, sub_axis: AxisRef, ins: Places, outs: Places, digit: tuple[int, int] | None
) -> str:
    found = f"has {_words(ins, outs)} over axis {sub_axis.name!r} of {sub_axis.size} devices"
    derived = list(_derived(rule, digit, sub_axis.size))
    alike: list[tuple[str, Callable[[tuple[Places, Places]], bool], int]] = [
        ("from such operands", lambda ways: ways[0] == ins, 1),
        ("for such results", lambda ways: ways[1] == outs, 0),
    ]
    for given, is_alike, side in alike:
        ways = [way for way in derived if is_alike(way)]
        if ways:
            sides = [((), way[1]) if side else (way[0], ()) for way in ways]
            return f"{found}, but {given} its rule derives {_choices(sides)}"
    if digit is None and max(ins + outs) > WHOLE:
        return f"{found}, but that dimension must be whole"
    return f"{found}, but its rule derives {_choices(derived) or 'nothing so split'}"


def _choices(ways: Sequence[tuple[Places, Places]]) -> str:
    texts = list(dict.fromkeys(_words(ins, outs) for ins, outs in ways))
    return " or ".join(texts[:3]) + (" ..." if len(texts) > 3 else "")


def _words(ins: Places, outs: Places) -> str:
    named = [*(("operand", k, p) for k, p in enumerate(ins))]
    named += [("result", k, p) for k, p in enumerate(outs)]
    return ", ".join(f"{side} {k} {_word(place)}" for side, k, place in named)


def _word(place: int) -> str:
    if place <= WHOLE:
        return "whole" if place == WHOLE else f"partial ({place_kind(place)})"
    dim, major = split_of(place)
    return f"split at dimension {dim}" + (f" behind {major} blocks" if major > 1 else "")


def _sides(operands: Layouts, results: Layouts) -> str:
    texts = [", ".join(layout.short() for layout in side) for side in (operands, results)]
    return " -> ".join(texts)
