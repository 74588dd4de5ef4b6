"""Gradients of scans in the form of `jax.lax.associative_scan`, as scans that go the other way.

With S[t] = f(S[t-1], x[t]), what a loss changes with S[t] is G[t] = L[t] + J[t+1] G[t+1], where L
is what it changes with S[t] by itself and J are the derivatives of f by S. JAX differentiates the
tree of slices and pads that the scan is written as, and reads all that stands in between. What it
gives is recognised by computing it in finite fields, and so need not be written in any one way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.forms.finite import (
    FieldRow,
    FieldRows,
    less,
    multiplied,
    repeated,
    row_sum,
    shifted_row,
)
from dtensor.passes.forms.levels import AssociativeScan
from dtensor.passes.forms.terms import Term, derivative, evaluated, leaves_of, term_of
from dtensor.passes.ops.attributes import shape_of

_MOST_VALUES, _MOST_ELEMENTS = 6, 1 << 18  # values that may be what a loss changes with; elements
_MOST_OPERANDS = 4
Found = tuple[Value, int, Value | None]


@dataclass
class Gradient:
    """The gradient of a scan, while it is recognised.

    Attributes:
        scan: the scan.
        terms: of each operand, what combines a pair.
        scans: the scans of some operands, which are read.
        made: what is computed of the operands on the way, and of what that is read with.
        cotangents: of each operand, what the loss changes with its scan by itself.
        firsts: what stands before the first element of each scan.
        found: the gradients of operands: values, which operand, and what was added to it.
    """

    scan: AssociativeScan
    terms: list[Term]
    scans: dict[int, Value]
    rows: FieldRows
    made: list[Value] = field(default_factory=list)
    cotangents: list[Value | None] = field(default_factory=list)
    firsts: tuple[int, ...] = ()
    found: list[Found] = field(default_factory=list)

    @staticmethod
    def of(group: Sequence[AssociativeScan], ops: Sequence[ir.Operation]) -> Gradient | None:
        """The gradient of the scans of a group, the first of which has the operands of all.

        Args:
            group: the scans.
            ops: the operations of their block, in program order.
        """
        scan = group[0]
        size = shape_of(scan.root.results[0])[scan.dim]
        if size > _MOST_ELEMENTS or len(scan.inputs) > _MOST_OPERANDS:
            return None
        rows = FieldRows(scan.dim, max(map(shape_of, scan.inputs), key=math.prod))
        if not all(rows.is_whole(value) for value in scan.inputs):
            return None
        terms = [term_of(scan, scan.pairs[k]) for k in range(len(scan.inputs))]
        if None in terms:
            return None
        scans = {scan.inputs.index(each.inputs[0]): each.root.results[0] for each in group}
        gradient = Gradient(scan, terms, scans, rows)
        return gradient if gradient._is_one(group, ops) else None

    @property
    def _count(self) -> int:
        return len(self.scan.inputs)

    def _is_one(self, group: Sequence[AssociativeScan], ops: Sequence[ir.Operation]) -> bool:
        inner = {op for each in group for op in each.ops}
        between = inner - {each.root for each in group}
        taken = self._taken_apart([op for op in ops if op not in inner])
        taken = [value for value in taken if maker_of(value) not in between]
        uses = [use for op in between for result in op.results for use in result.uses]
        reads = any(use.owner.operation not in inner for use in uses)
        if not taken or not (reads or (self._is_sum and len(taken) <= _MOST_VALUES)):
            return False
        self._evaluate(ops, [] if reads else taken)
        known = {self._key(value): value for value in reversed(taken) if value in self.rows.known}
        read = list(known.values())[::-1]
        before = self._before() if 0 < len(read) <= _MOST_VALUES else None
        if before is None:
            return False
        outer = set(self.made).difference(*[op.results for op in inner])
        made = [value for value in self._wholes if value in outer]
        places: dict[Value, int] = {r: i for i, op in enumerate(ops) for r in op.results}
        most: list[Found] = []
        for cotangents in self._assignments(read):
            self.cotangents = cotangents
            found = self._found(self._gradients(before), made, places)
            if len({k for _, k, _ in found}) > len({k for _, k, _ in most}):
                most, best = found, cotangents
        if most:
            self.found, self.cotangents = most, best
        return bool(most)

    @property
    def _wholes(self) -> list[Value]:
        return [value for value in self.rows.known if self.rows.is_whole(value)]

    @property
    def _is_sum(self) -> bool:
        """Whether what the loss changes with an element depends on no element."""
        n = range(self._count)
        terms = [self.derivative(j, side, k) for j in n for side in (0, 1) for k in n]
        return all(isinstance(term, int | float) for term in terms)

    def _found(
        self, expected: dict[int, FieldRow], made: Sequence[Value], places: dict[Value, int]
    ) -> list[Found]:
        """Which values are gradients, or the sum of one and of something that stands before it."""
        wholes = {self._key(value): value for value in reversed(self._wholes)}
        found: list[Found] = []
        for k, row in expected.items():
            shape = shape_of(self.scan.inputs[k])
            fitting = [value for value in made if shape_of(value) == shape]
            own = row.tobytes()
            same: list[Found] = [(v, k, None) for v in fitting if self._key(v)[0] == own]
            for value in fitting if not same else []:
                difference = less(self.rows.known[value], row)
                rest = wholes.get((difference.tobytes(), tuple(shape)))
                if rest is not None and places.get(rest, -1) < places[value]:
                    same.append((value, k, rest))
            found += same
        return found

    def _key(self, value: Value) -> tuple[bytes, tuple[int, ...]]:
        """What values have in common that are the same."""
        return self.rows.known[value].tobytes(), tuple(shape_of(value))

    def _evaluate(self, ops: Sequence[ir.Operation], more: Sequence[Value]) -> None:
        """Compute all that reads the operands, or some more values, and what else that reads."""
        rows, touched = self.rows, {*self.scan.inputs, *more}
        for value in self.scan.inputs:
            rows.random(value)
        for value in more:
            rows.of(value)
        for op in ops:
            reads = rows.reads(op)
            if reads is None or touched.isdisjoint(reads) or op.results[0] in rows.known:
                continue
            if any(rows.of(value) is None for value in reads):
                continue
            row = rows.computed(op)
            if row is not None:
                rows.known[op.results[0]] = row
                touched.add(op.results[0])
                self.made.append(op.results[0])

    def _taken_apart(self, ops: Sequence[ir.Operation]) -> list[Value]:
        """The values of whole length of which an operation reads a part."""
        found, d = {}, self.scan.dim
        for op in ops:
            if op.name in ("stablehlo.slice", "stablehlo.pad"):
                value = op.operands[0]
                if self.rows.is_whole(value) and shape_of(op.results[0])[d] < self.rows.shape[d]:
                    found[value] = op
        return list(found)

    def _assignments(self, read: Sequence[Value]) -> Iterator[list[Value | None]]:
        """Which values may be what the loss changes with each scan: of one scan, then of more."""
        shapes = {k: shape_of(self.scan.inputs[k]) for k in self.scans}
        fitting = {k: [v for v in read if shape_of(v) == shape] for k, shape in shapes.items()}
        for k in self.scans:
            for value in fitting[k]:
                yield [value if j == k else None for j in range(self._count)]
        if len(self.scans) > 1 and len(read) <= 3:
            for chosen in product(*[[None, *values] for values in fitting.values()]):
                if sum(value is not None for value in chosen) > 1:
                    given = dict(zip(self.scans, chosen, strict=True))
                    yield [given.get(j) for j in range(self._count)]

    def _before(self) -> list[FieldRow] | None:
        """The scans up to the element before each; finds what may stand before the first."""
        size = self.rows.shape[self.scan.dim]
        x = [self.rows.known[value] for value in self.scan.inputs]
        total, step = list(x), 1
        while step < size:
            left = [shifted_row(row, step) for row in total]
            both = [self._in_fields(term, (left, total)) for term in self.terms]
            for k, row in enumerate(both):
                total[k] = np.concatenate([total[k][:, :step], row[:, step:]], axis=1)
            step *= 2
        second = [row[:, :1] for row in x]
        for firsts in product((0, 1), repeat=self._count):
            self.firsts = firsts
            first = [np.full_like(row, n) for row, n in zip(second, firsts, strict=True)]
            same = [self._in_fields(term, (first, second)) for term in self.terms]
            if all((a == b).all() for a, b in zip(same, second, strict=True)):
                return [shifted_row(row, 1, n) for row, n in zip(total, self.firsts, strict=True)]
        return None

    def _in_fields(self, term: Term, leaves: Sequence[Sequence[FieldRow]]) -> FieldRow:
        size = leaves[0][0].shape[1]

        def number(value: float) -> FieldRow:
            row = repeated(value, size)
            assert row is not None, "a number of a program"
            return row

        operations = {"+": row_sum, "*": multiplied}
        found: FieldRow = evaluated(
            term, lambda side, k: leaves[side][k], number, lambda name, a, b: operations[name](a, b)
        )
        return found

    def derivative(self, j: int, side: int, k: int) -> Term:
        """Of what operand `j` becomes, by operand `k` of the earlier or the later of a pair."""
        return derivative(self.terms[j], (side, k))

    @property
    def reads(self) -> set[int]:
        """The operands whose scans the derivatives read."""
        active = self.active
        terms = [self.derivative(j, 0, k) for j in active for k in active]
        terms += [self.derivative(j, 1, k) for j in active for _, k, _ in self.found]
        return {k for term in terms for side, k in leaves_of(term) if not side}

    @property
    def active(self) -> list[int]:
        """The scans that the loss changes with, by themselves or through others."""
        found = [k for k, value in enumerate(self.cotangents) if value is not None]
        for j in found:
            found += [
                k for k in range(self._count) if k not in found and self.derivative(j, 0, k) != 0
            ]
        return sorted(found)

    @property
    def steps(self) -> dict[tuple[int, int], Term]:
        """Of each two scans that the loss changes with, what one passes on to the other."""
        active = self.active
        return {(k, j): self.derivative(j, 0, k) for k in active for j in active}

    def _gradients(self, before: Sequence[FieldRow]) -> dict[int, FieldRow]:
        """The gradient of each operand, if these are the cotangents."""
        x, active = [self.rows.known[value] for value in self.scan.inputs], self.active
        dims = [self.rows.long_dims(value) for value in self.scan.inputs]
        zero = np.zeros_like(x[0])
        given = [zero if v is None else self.rows.known[v] for v in self.cotangents]

        def at(j: int, side: int, k: int) -> FieldRow:
            found = self._in_fields(self.derivative(j, side, k), (before, x))
            return self.rows.sum_over(found, dims[j] - dims[k])

        steps = {(k, j): at(j, 0, k) for k in active for j in active}
        total = {k: zero for k in active}
        for k, j in steps:
            total[k] = row_sum(total[k], multiplied(steps[k, j], given[j]))
        step = 1
        while step < zero.shape[1]:
            later = {k: shifted_row(row, -step) for k, row in total.items()}
            for k, j in steps:
                total[k] = row_sum(total[k], multiplied(steps[k, j], later[j]))
            after = {key: shifted_row(row, -step) for key, row in steps.items()}
            steps = {
                (k, j): _sum([multiplied(steps[k, i], after[i, j]) for i in active])
                for k, j in steps
            }
            step *= 2
        whole = {k: row_sum(given[k], shifted_row(total[k], -1)) for k in active}
        found = {}
        for k in range(self._count):
            parts = [multiplied(at(j, 1, k), whole[j]) for j in active]
            if any(self.derivative(j, 1, k) != 0 for j in active):
                found[k] = _sum(parts)
        return found


def _sum(rows: Sequence[FieldRow]) -> FieldRow:
    total = rows[0]
    for row in rows[1:]:
        total = row_sum(total, row)
    return total
