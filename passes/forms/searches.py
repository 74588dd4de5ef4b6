"""Loops that bisect a table for many queries at once: `jnp.searchsorted`, as JAX writes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from dtensor.dialect import build
from dtensor.dialect.mlir import (
    Value,
    ir,
    is_read,
    made_by,
    maker_of,
    terminator,
)
from dtensor.passes.builder import filling
from dtensor.passes.forms.scalars import Scalars
from dtensor.passes.ops.attributes import integers, shape_of, spread_dims
from dtensor.passes.ops.elementwise import cone, is_scalar_work
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.program import never_changed_in, outside, trip_count
from dtensor.passes.rewriting.rewriting import Rewriting

_MOST_WORKS = 64  # operations, one after another, that compare a query with what the table has


def replace_search(loop: ir.Operation, function: Rewriting) -> None:
    """A `dtensor.search` in the place of a loop that is one."""
    found = _Bisection.of(loop)
    search = None if found is None else found.search()
    if found is not None and search is not None:
        function.made.append(search)
        function.replace_value(loop.results[found.high], search.results[0])
        function.replace(loop, *loop.operands)  # others are unchanged, or read no more


def _made_by(value: Value, name: str) -> list[Value]:
    """The operands of what makes a value, if it is an op of that name; nothing otherwise."""
    maker = made_by(f"stablehlo.{name}", value)
    return [] if maker is None else list(maker.operands)


def _is_all(value: Value, number: int) -> bool:
    found = known_integers(value)
    return found is not None and bool((found == number).all())


@dataclass
class _Bisection:
    """A loop that halves an interval for each query.

    Attributes:
        loop: the loop.
        low: which carried value is the lower end.
        high: which one is the upper end.
        middle: where the table is read.
        goes_down: whether the upper end moves.
    """

    loop: ir.Operation
    low: int
    high: int
    middle: Value
    goes_down: Value
    queries: list[Value] = field(default_factory=list)
    table: Value | None = None

    @staticmethod
    def of(loop: ir.Operation) -> _Bisection | None:
        """The loop, if its carried values are two ends, a counter and what never changes."""
        body = loop.regions[1].blocks[0]
        arguments, given = list(body.arguments), list(terminator(body).operands)
        read = [k for k, result in enumerate(loop.results) if is_read(result)]
        moving = [k for k in read if k not in never_changed_in(loop)]
        if len(moving) != 1:
            return None
        high = moving[0]
        choice = _made_by(given[high], "select")
        if not choice or choice[2] != arguments[high]:
            return None
        down, middle = choice[:2]
        for low, value in enumerate(given):
            if _made_by(value, "select") == [down, arguments[low], middle]:
                found = _Bisection(loop, low, high, middle, down)
                return found if found._halves() else None
        return None

    def _halves(self) -> bool:
        """Whether the middle is that of the ends, which no trip of the loop leaves apart."""
        arguments = self.loop.regions[1].blocks[0].arguments
        low, high = arguments[self.low], arguments[self.high]
        terms = _made_by(self.middle, "add")
        half = [value for value in terms if value != low]
        if low not in terms or len(half) != 1 or shape_of(self.goes_down) != shape_of(low):
            return False
        parts = _made_by(half[0], "divide")
        if len(parts) != 2 or _made_by(parts[0], "subtract") != [high, low]:
            return False
        return _is_all(parts[1], 2) and _is_all(self.loop.operands[self.low], 0)

    def search(self) -> ir.Operation | None:
        """The op that stands for the loop, before it; None if the body reads what it has not."""
        if not self._is_computed(self.goes_down) or self.table is None or not self.queries:
            return None
        count, trips = known_integers(self.loop.operands[self.high]), trip_count(self.loop)
        size = shape_of(self.table)[0]
        if count is None or trips is None or not count.size or (count != count.flat[0]).any():
            return None
        most = int(count.flat[0])
        if not 0 < most <= size or trips < most.bit_length():
            return None
        element = ir.RankedTensorType(self.middle.type).element_type
        inside = (self.table, *self.queries)
        given = [found for value in inside if (found := self._outside(value)) is not None]
        op = build.search(
            given[0],
            given[1:],
            most,
            element,
            loc=self.loop.location,
            ip=ir.InsertionPoint(self.loop),
        )
        block = op.regions[0].blocks[0]
        scalars = Scalars(filling(block))
        for query, argument in zip(self.queries, block.arguments, strict=False):
            scalars.known[query] = argument
        scalars.other = block.arguments[len(self.queries)]
        scalars.make.end([scalars.of(self.goes_down)])
        return op

    def _outside(self, value: Value) -> Value | None:
        return outside(value, self.loop.regions[1].blocks[0])

    def _is_computed(self, value: Value) -> bool:
        """Whether a value is computed, element by element, of queries and of the table's."""
        shape = shape_of(self.middle)

        def is_work(op: ir.Operation) -> bool:
            return is_scalar_work(op) and shape_of(op.results[0]) == shape

        return cone(value, self._is_read, _MOST_WORKS, is_work) is not None

    def _is_read(self, value: Value) -> bool:
        """Whether a value is a query, or what is read of the table; it is noted."""
        if shape_of(value) != shape_of(self.middle):
            return False
        if self._outside(value) is not None:
            if value not in self.queries:
                self.queries.append(value)
            return True
        table = _looked_up(value, self.middle)
        if table is None or self._outside(table) is None:
            return False
        is_only = self.table is None or self.table == table
        self.table = table
        return is_only


def _looked_up(value: Value, middle: Value) -> Value | None:
    """The table, if the value is what stands there at the places of `middle`, one by one."""
    while _made_by(value, "reshape"):
        (value,) = _made_by(value, "reshape")
    operands = _made_by(value, "gather")
    if not operands or len(shape_of(operands[0])) != 1:
        return None
    gather = maker_of(value)
    assert gather is not None
    indices, shape = operands[1], shape_of(middle)
    vector_dim = IndexNumbers.of(gather).vector_dim
    is_single = integers(gather.attributes["slice_sizes"]) == [1]
    if not is_single or shape_of(indices) != [*shape, 1] or vector_dim != len(shape):
        return None
    if _made_by(indices, "broadcast_in_dim") == [middle]:
        spread = maker_of(indices)
        assert spread is not None
        in_order = spread_dims(spread) == list(range(len(shape)))
        return operands[0] if in_order else None
    return operands[0] if _made_by(indices, "reshape") == [middle] else None
