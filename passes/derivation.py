"""What the rule of one operation derives: in which layouts it may read and write.

Each mesh axis, or part of one, stands on the operands and results of an operation as one digit of
one factor, or as one way to compute on parts, or nowhere.
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

Layouts = tuple[Layout, ...]
Place = tuple[int, int] | str | None  # (dimension, blocks ahead of it), or a reduction, or whole
Places = tuple[Place, ...]
Stands = dict[AxisRef, Place]

REMEDY = "let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout"


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
    _stands: dict[Layout, Stands] = field(default_factory=dict)

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
        stands = [self._stands_for(layout) for layout in (*operands, *results)]
        found = _problem(rule, operands, results, stands)
        if found is not None and rule is not None and rule.other is not None:
            found = _problem(rule.other, operands, results, stands) and found
        if found is not None:
            error(op, f"'{name}' {found}; {REMEDY}")
        operands, results = (tuple(map(self.known, side)) for side in (operands, results))
        self._right[id(rule), operands, results] = rule  # kept alive: its id stays its own

    def _stands_for(self, layout: Layout) -> Stands:
        found = self._stands.get(layout)
        if found is None:
            found = self._stands[layout] = stands_of(layout)
        return found


def _problem(
    rule: OpRule | None, operands: Layouts, results: Layouts, stands: Sequence[Stands]
) -> str | None:
    if not any(stands):
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
    for atom in atoms_of(stands):
        places = [place_in(found, atom) for found in stands]
        ins, outs = tuple(places[:count]), tuple(places[count:])
        digit = _digit(rule, ins, outs)
        if (ins, outs) not in _derived(rule, digit, atom.size):
            return _unlike(rule, atom, ins, outs, digit)
        if digit is not None:
            digits.append((*digit, atom.size))
    return _overlap(digits) if len(digits) > 1 else None


def _overlap(digits: list[tuple[int, int, int]]) -> str | None:
    for (factor, major, size), (other, ahead, _) in pairwise(sorted(digits)):
        if factor == other and ahead % (major * size):
            return "divides one of its factors twice at the same digits"
    return None


def stands_of(layout: Layout) -> Stands:
    """Where each axis, or part of one, stands on a value of this layout."""
    found: Stands = dict(layout.partial)
    for d, dim in enumerate(layout.dims):
        found |= {axis: (d, major) for axis, major in dim.placed()}
    return found


def atoms_of(stands: Sequence[Stands]) -> list[AxisRef]:
    """The parts of axes that these layouts tell apart."""
    axes = list(dict.fromkeys(axis for found in stands for axis in found))
    names = {axis.name for axis in axes}
    if len(names) == len(axes):
        return axes
    atoms = []
    for name in dict.fromkeys(axis.name for axis in axes):
        refs = [axis for axis in axes if axis.name == name]
        edges = sorted({edge for axis in refs for edge in (axis.pre, axis.pre * axis.size)})
        atoms += [
            AxisRef(name, low, high // low) for low, high in pairwise(edges) if high % low == 0
        ]
    return atoms


def place_in(stands: Stands, atom: AxisRef) -> Place:
    """Where a part of an axis stands on a value."""
    if atom in stands:
        return stands[atom]
    for axis, place in stands.items():
        if axis.overlaps(atom):
            if isinstance(place, tuple):
                return place[0], place[1] * atom.pre // axis.pre
            return place
    return None


def _digit(rule: OpRule, ins: Places, outs: Places) -> tuple[int, int] | None:
    """The `(factor, blocks ahead)` that the axis splits, as the first tensor that is split says."""
    for dims, place in zip((*rule.operands, *rule.results), (*ins, *outs), strict=True):
        if isinstance(place, tuple):
            carried = dims[place[0]]
            if carried is None or place[1] % carried.outer:
                return None
            return carried.factor, place[1] // carried.outer * carried.before
    return None


def _derived(
    rule: OpRule, digit: tuple[int, int] | None, n: int
) -> Iterator[tuple[Places, Places]]:
    """The places on operands and results that the rule derives: of a digit, or of parts."""
    if digit is None:
        yield (None,) * len(rule.operands), (None,) * len(rule.results)
        for parts in rule.passes:
            yield parts.operands, parts.results
        return
    factor, major = digit
    spec = rule.factors[factor]
    carried = [_carried(dims, factor, major, n) for dims in (*rule.operands, *rule.results)]
    if spec.size % (major * n) or "straddles" in carried:
        return
    count = len(rule.operands)
    ins: list[Place] = carried[:count]
    outs: list[Place] = carried[count:]
    if spec.reduction is not None:
        for k in spec.partial_operands:
            ins[k] = spec.reduction
        outs = [spec.reduction if place is None else place for place in outs]
    yield tuple(ins), tuple(outs)


def _carried(dims: Sequence[DimMap | None], factor: int, major: int, n: int) -> Place:
    """Where a digit of a factor stands on a tensor; "straddles" if it fits no dimension."""
    carries = False
    for d, m in enumerate(dims):
        if m is None or m.factor != factor:
            continue
        carries = True
        if major % m.before == 0 and m.size % (major // m.before * n) == 0:
            return d, m.outer * (major // m.before)
    return "straddles" if carries else None


# What is wrong, in words.


def _unlike(
    rule: OpRule, atom: AxisRef, ins: Places, outs: Places, digit: tuple[int, int] | None
) -> str:
    found = f"has {_words(ins, outs)} over axis {atom.name!r} of {atom.size} devices"
    derived = list(_derived(rule, digit, atom.size))
    alike: list[tuple[str, Callable[[tuple[Places, Places]], bool], int]] = [
        ("from such operands", lambda ways: ways[0] == ins, 1),
        ("for such results", lambda ways: ways[1] == outs, 0),
    ]
    for given, is_alike, side in alike:
        ways = [way for way in derived if is_alike(way)]
        if ways:
            sides = [((), way[1]) if side else (way[0], ()) for way in ways]
            return f"{found}, but {given} its rule derives {_choices(sides)}"
    if digit is None and any(isinstance(place, tuple) for place in ins + outs):
        return f"{found}, but that dimension must be whole"
    return f"{found}, but its rule derives {_choices(derived) or 'nothing so split'}"


def _choices(ways: Sequence[tuple[Places, Places]]) -> str:
    texts = list(dict.fromkeys(_words(ins, outs) for ins, outs in ways))
    return " or ".join(texts[:3]) + (" ..." if len(texts) > 3 else "")


def _words(ins: Places, outs: Places) -> str:
    named = [*(("operand", k, p) for k, p in enumerate(ins))]
    named += [("result", k, p) for k, p in enumerate(outs)]
    return ", ".join(f"{side} {k} {_word(place)}" for side, k, place in named)


def _word(place: Place) -> str:
    if place is None:
        return "whole"
    if isinstance(place, str):
        return f"partial ({place})"
    dim, major = place
    return f"split at dimension {dim}" + (f" behind {major} blocks" if major > 1 else "")


def _sides(operands: Layouts, results: Layouts) -> str:
    texts = [", ".join(layout.short() for layout in side) for side in (operands, results)]
    return " -> ".join(texts)
