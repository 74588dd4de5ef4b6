"""The gradient of a scan, written as scans that go the other way.

What the loss changes with the scans before an element, through that element, is H[t] = J[t] G[t] =
J[t] (L[t] + H[t+1]): affine maps of H, which a `dtensor.scan` combines from the other end on. Then
G[t] = L[t] + H[t+1], and an operand's gradient is G[t] times the derivatives of f by x[t].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dtensor.dialect.mlir import Value, ir, operation_of, users
from dtensor.passes.builder import Builder
from dtensor.passes.creation import with_sizes
from dtensor.passes.disjoint_sets import DisjointSets
from dtensor.passes.forms.affine_maps import composed
from dtensor.passes.forms.scalars import scanned
from dtensor.passes.forms.scan_gradients import Gradient
from dtensor.passes.forms.terms import Term, evaluated
from dtensor.passes.ops.attributes import elements_of, shape_of
from dtensor.passes.ops.patterns import reverses, unreversed
from dtensor.passes.rewriting.rewriting import Rewriting


def write_gradient(
    gradient: Gradient, places: dict[Value, int], stands: dict[Value, Value], function: Rewriting
) -> None:
    """Let scans stand for a gradient, if all is there that they read.

    Args:
        gradient: the gradient.
        places: of the operations that values come from, in program order; more are added.
        stands: what stands for values that somebody still has in hand; more are added.
        function: the function.
    """
    gradient.cotangents = [None if v is None else stands.get(v, v) for v in gradient.cotangents]
    gradient.scans = {k: stands.get(value, value) for k, value in gradient.scans.items()}
    gradient.scan.inputs = [stands.get(value, value) for value in gradient.scan.inputs]
    writing = _Writing.of(gradient, places, stands, function)
    if writing is not None:
        writing.write()


class _Writing:
    """The gradient as it is written: in the order of the array, of which a scan may begin last."""

    def __init__(
        self,
        gradient: Gradient,
        first: Value,
        places: dict[Value, int],
        stands: dict[Value, Value],
        function: Rewriting,
    ) -> None:
        """All is written ahead of the first value that it stands for."""
        self.function, self.made = function, list[ir.Operation]()
        self.gradient, self.places, self.stands = gradient, places, stands
        self.first, self.place = operation_of(first), places[first]
        self.make = Builder(self.first, self.made)
        self.dim = gradient.scan.dim
        self.is_reverse = all(unreversed(v, self.dim) is not None for v in gradient.scan.inputs)
        self.x = [self._straight(value) for value in gradient.scan.inputs]
        self.size = self.make.shape_of(self.x[0])[self.dim]
        self.least = min(self.x, key=elements_of)
        self._before: dict[int, Value] = {}

    @staticmethod
    def of(
        gradient: Gradient,
        places: dict[Value, int],
        stands: dict[Value, Value],
        function: Rewriting,
    ) -> _Writing | None:
        """Where all that is read is there, ahead of the first gradient; None if it is not."""
        first = min((value for value, _, _ in gradient.found), key=places.__getitem__)
        read = [*gradient.scan.inputs, *gradient.scans.values()]
        read += [value for value in gradient.cotangents if value is not None]
        if any(places.get(value, -1) >= places[first] for value in read):
            return None  # an argument of the block has no place
        elements = {str(ir.ShapedType(value.type).element_type) for value in read}
        if len(elements) > 1 or not gradient.reads <= set(gradient.scans):
            return None
        shapes = [shape_of(value) for value in gradient.scan.inputs]
        for block in _blocks(gradient.active, gradient.steps):
            if any(shapes[k] != shapes[block[0]] for k in block):
                return None
        return _Writing(gradient, first, places, stands, function)

    def write(self) -> None:
        """Write it."""
        found = self.gradients()
        self.places |= {result: self.place for op in self.made for result in op.results}
        for value, k, rest in self.gradient.found:
            self._put(value, found[k], rest)
        self.function.made += self.made

    def gradients(self) -> dict[int, Value]:
        """The gradient of each operand that is asked for."""
        gradient, active = self.gradient, self.gradient.active
        given = {
            k: self._straight(value)
            for k, value in enumerate(gradient.cotangents)
            if value is not None
        }
        steps = gradient.steps
        whole = dict(given)
        for block in _blocks(active, steps):
            for k, later in self._passed_on(block, steps, given).items():
                moved = self._moved(later, -1, 0)
                whole[k] = self.make.binary("add", whole[k], moved) if k in whole else moved
        found: dict[int, Value] = {}
        for k in sorted({k for _, k, _ in gradient.found}):
            total = None
            for j in active:
                derivative = gradient.derivative(j, 1, k)
                term = self._times(derivative, whole[j])
                if term is None:
                    continue
                if self._starts_with_zero(derivative):
                    term = self._without_first(term)
                total = self._plus(total, self._summed_to(term, self.x[k]))
            assert total is not None, "what was recognised is not zero"
            found[k] = total
        return found

    def _starts_with_zero(self, term: Term) -> bool:
        """Whether a derivative is zero at the first element, whatever the operands are."""
        found: float = evaluated(
            term,
            lambda side, k: 0.7 + 0.1 * k if side else float(self.gradient.firsts[k]),
            float,
            lambda name, a, b: a + b if name == "+" else a * b,
        )
        return found == 0

    def _without_first(self, value: Value) -> Value:
        """A value that is zero at the first element: infinity times zero would not be."""
        make, shape = self.make, self.make.shape_of(value)
        index = make.iota(shape, self.dim, "i32")
        first = self.size - 1 if self.is_reverse else 0
        return make.select(make.compare("EQ", index, first), 0, value)

    def _passed_on(
        self, block: Sequence[int], steps: dict[tuple[int, int], Term], given: dict[int, Value]
    ) -> dict[int, Value]:
        """What the loss changes with the scans before each element, through that element."""
        make, first = self.make, self.x[block[0]]
        starts: list[Value] = []
        for k in block:
            total = None
            for j in block:
                if j in given:
                    total = self._plus(total, self._times(steps[k, j], given[j]))
            starts.append(make.zeros(first.type) if total is None else total)
        is_sum = len(block) == 1 and steps[block[0], block[0]] == 1
        entries = [] if is_sum else [(k, j) for k in block for j in block]
        factors = [self._value(steps[entry]) for entry in entries]
        if len(block) > 1:
            factors = [make.of_one_shape(factor, first)[0] for factor in factors]
        both = _plus if is_sum else partial(composed, entries, block)
        found = scanned(self.first, [*factors, *starts], self.dim, not self.is_reverse, both, make)
        return dict(zip(block, found[len(factors) :], strict=True))

    def _value(self, term: Term) -> Value:
        """A derivative."""
        make, names = self.make, {"+": "add", "*": "multiply"}
        value: Value = evaluated(
            term,
            self._leaf,
            lambda number: make.constant_like(number, self.least),
            lambda name, a, b: make.binary(names[name], *make.of_one_shape(a, b)),
        )
        return value

    def _summed_to(self, value: Value, like: Value) -> Value:
        """The sum over the dimensions along which another value has one element, or none."""
        make = self.make
        shape, sizes = make.shape_of(like), make.shape_of(value)
        for d in reversed(range(len(sizes))):
            if sizes[d] != 1 and (d >= len(shape) or shape[d] == 1) and d != self.dim:
                value = make.reduced(value, d, "sum")
                value = make.regrouped(value, d, 1, count=0)
        return make.reshape(value, shape)

    def _times(self, term: Term, value: Value) -> Value | None:
        """A derivative times a value; None of zero."""
        if term == 0:
            return None
        if term == 1:
            return value
        return self.make.binary("multiply", *self.make.of_one_shape(self._value(term), value))

    def _plus(self, left: Value | None, right: Value | None) -> Value | None:
        if left is None or right is None:
            return right if left is None else left
        return self.make.binary("add", left, right)

    def _leaf(self, side: int, k: int) -> Value:
        """An operand, or its scan up to the element before."""
        if side:
            return self.x[k]
        if k not in self._before:
            scan = self._straight(self.gradient.scans[k])
            self._before[k] = self._moved(scan, 1, self.gradient.firsts[k])
        return self._before[k]

    def _moved(self, value: Value, by: int, fill: int) -> Value:
        """A value one place further on in the order of the scan, or back."""
        make, d = self.make, self.dim
        shape, element = make.read_type(value.type)
        row = make.zeros(make.tensor_type(with_sizes(shape, d, 1), element))
        end = make.constant_like(fill, row) if fill else row
        if (by > 0) != self.is_reverse:
            return make.joined([end, make.cut(value, d, 0, self.size - 1)], d)
        return make.joined([make.cut(value, d, 1, self.size - 1), end], d)

    def _straight(self, value: Value) -> Value:
        """A value in the order of the array, where the first operation is to be written."""
        if not self.is_reverse:
            return value
        found = unreversed(value, self.dim)
        if found is not None:
            return found
        for user in users(value):
            if reverses(user, [self.dim]):
                straight: Value = user.results[0]
                if self.places.get(straight, self.place) < self.place:
                    return straight
        return self.make.reversed(value, self.dim)

    def _put(self, value: Value, new: Value, rest: Value | None) -> None:
        """Let who reads a gradient, and what was added to it, read another value."""
        make = Builder(operation_of(value), self.made)
        reversals = users(value) if self.is_reverse else []
        for each in reversals if rest is None else []:
            if reverses(each, [self.dim]):
                self._stand(each.results[0], new)
        if self.is_reverse:
            new = make.reversed(new, self.dim)
        if rest is not None:
            new = make.binary("add", self.stands.get(rest, rest), new)
        self._stand(value, new)

    def _stand(self, value: Value, new: Value) -> None:
        self.function.replace_value(value, new)
        self.stands[value] = new
        self.places.setdefault(new, self.places[value])


def _blocks(active: Sequence[int], steps: dict[tuple[int, int], Term]) -> list[list[int]]:
    """Those of some scans that depend on one another, together."""
    found = DisjointSets[int]()
    for (k, j), term in steps.items():
        if term != 0:
            found.join(k, j)
    return found.sets(sorted(active))


def _plus(make: Builder, earlier: Sequence[Value], later: Sequence[Value]) -> list[Value]:
    return [make.binary("add", earlier[0], later[0])]
