"""The regions of a program: what stands where, how often it runs, and what flows in and out.

Only the regions of loops, branches and `dtensor.manual` hold operations of the program; those of a
reduce, a sort or a scatter hold a combiner of scalars. Whoever walks a program, or asks which
values a loop or a branch ties together, what a loop never changes or how often it runs, asks here.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dtensor.dialect.mlir import (
    Value,
    block_of,
    every,
    ir,
    made_by,
    maker_of,
    ops_of,
    replace_op,
    terminator,
)
from dtensor.dialect.names import FREE, MANUAL
from dtensor.passes.ops.attributes import CONSTANT, constant_attribute, direction_of

WHILE: Final = "stablehlo.while"
BRANCHES: Final = ("stablehlo.case", "stablehlo.if")
BARRIER: Final = "stablehlo.optimization_barrier"
CONTROL: Final = frozenset((WHILE, *BRANCHES))
RETURNS: Final = frozenset(("stablehlo.return", "func.return"))
CALLS: Final = frozenset(("func.call", "call"))
COMPOSITE: Final = "stablehlo.composite"
CUSTOM_CALL: Final = "stablehlo.custom_call"
# The attribute by which an operation names the function that it stands for.
CALLEE: Final = {**dict.fromkeys(CALLS, "callee"), COMPOSITE: "decomposition"}

Use = tuple[ir.Operation, int]  # an operand: the operation that reads, and which of its operands


@dataclass(frozen=True, eq=False, slots=True)
class Scope:
    """A block of the program.

    Attributes:
        number: its number, in program order.
        block: the block.
        parent: the block around it; None for a function's.
        trips: how often it runs per call of the function; None inside a loop of unknown length.
    """

    number: int
    block: ir.Block
    parent: Scope | None
    trips: int | None

    def outwards(self) -> Iterator[Scope]:
        """The block, that around it, and so on."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


Visit = tuple[ir.Operation, str, Scope]  # an operation, its name, and where it stands


def walk(owner: ir.Operation, combiners: bool = False) -> Iterator[Visit]:
    """The operations in the regions of `owner`, their names and scopes, in program order.

    A loop or a branch comes before what stands in it. The operation just given may be erased or
    replaced; what is created while walking is not given. With `combiners` also those in the bodies
    of reduce, sort and the like.
    """
    count = 0
    stack: list[tuple[Iterator[ir.Operation], Scope]] = []

    def enter(op: ir.Operation, parent: Scope | None, trips: int | None) -> None:
        nonlocal count
        found = []
        for region in op.regions:
            for block in region:
                scope = Scope(count, block, parent, trips)
                found.append((iter(ops_of(block)), scope))
                count += 1
        stack.extend(reversed(found))

    enter(owner, None, 1)
    while stack:
        ops, scope = stack[-1]
        for op in ops:
            name = op.name
            if combiners:
                enters = len(op.regions) > 0
            else:
                enters = name in CONTROL or (name == MANUAL and holds_program(op, name))
            yield op, name, scope
            if enters:
                enter(op, scope, _trips_inside(op, name, scope.trips))
                break
        else:
            stack.pop()


class Operations:
    """The operations of a function in program order, and by name.

    Attributes:
        visits: what `walk` gives.
    """

    def __init__(self, function: ir.Operation) -> None:
        self.visits = list(walk(function))
        self._numbers: dict[str, list[int]] = {}
        for number, (_, name, _) in enumerate(self.visits):
            self._numbers.setdefault(name, []).append(number)

    @property
    def names(self) -> KeysView[str]:
        """The names that operations have."""
        return self._numbers.keys()

    def named(self, *names: str) -> list[ir.Operation]:
        """The operations of these names, in program order."""
        numbers = sorted([number for name in names for number in self._numbers.get(name, ())])
        return [self.visits[number][0] for number in numbers]


def holds_program(op: ir.Operation, name: str) -> bool:
    """Whether operations of the program stand in the regions of an operation.

    A manual region that leaves no axis to the planner is one operation: nothing in it is laid out.
    """
    return name in CONTROL or (name == MANUAL and bool(free_axes(op)))


def free_axes(manual: ir.Operation) -> tuple[str, ...]:
    """The mesh axes that a `dtensor.manual` leaves to the planner."""
    return tuple([ir.StringAttr(axis).value for axis in ir.ArrayAttr(manual.attributes[FREE])])


def _trips_inside(op: ir.Operation, name: str, trips: int | None) -> int | None:
    if name != WHILE or trips is None:
        return trips
    count = trip_count(op)
    return None if count is None else trips * count


@dataclass(frozen=True, eq=False, slots=True)
class Tie:
    """Operands and values of a loop, a branch or a barrier that are one value: they share a layout.

    Attributes:
        sites: what flows in. A loop: its initial value, then what the body yields. A branch: what
            each region yields. A barrier: its operand.
        values: what comes out. A loop: the argument of its condition, that of its body, its result.
    """

    sites: tuple[Use, ...]
    values: tuple[Value, ...]


def ties(op: ir.Operation) -> list[Tie]:
    """The ties of a while, case, if or optimization_barrier, one per result; none of others."""
    name, results = op.name, list(op.results)
    if name == WHILE:
        condition, body = (region.blocks[0] for region in op.regions)
        end = terminator(body)
        rows = zip(condition.arguments, body.arguments, results, strict=True)
        return [Tie(((op, k), (end, k)), values) for k, values in enumerate(rows)]
    if name in BRANCHES:
        ends = [terminator(region.blocks[0]) for region in op.regions]
        return [Tie(tuple((end, k) for end in ends), (r,)) for k, r in enumerate(results)]
    if name == BARRIER:
        return [Tie(((op, k),), (result,)) for k, result in enumerate(results)]
    return []


def predicate(op: ir.Operation) -> Use:
    """The operand that steers a while, case or if: every device must see the same."""
    return (terminator(op.regions[0].blocks[0]), 0) if op.name == WHILE else (op, 0)


def dissolve(
    owner: ir.Operation, operands: Sequence[Value], place: ir.Operation
) -> list[ir.Operation]:
    """Put the body of `owner`, which runs once on these operands, in the place of an operation.

    Returns:
        The operations that were moved there; what they give stands for the results of `place`,
        which is erased.
    """
    block = owner.regions[0].blocks[0]
    for argument, value in zip(block.arguments, operands, strict=True):
        argument.replace_all_uses_with(value)
    *body, end = ops_of(block)
    for op in body:
        op.move_before(place)
    replace_op(place, end.operands)
    return body


def copy_to(point: ir.InsertionPoint, op: ir.Operation, known: dict[Value, Value]) -> ir.Operation:
    """A copy of an operation where what is known stands for what it reads, as its results then do.

    Nobody takes notice of it; `Creator.again` is for an operation on operands that are at hand.
    """
    copy = op.clone(ip=point).operation
    for inner in every(copy):
        for k, operand in enumerate(inner.operands):
            if operand in known:
                inner.operands[k] = known[operand]
    known.update(zip(op.results, copy.results, strict=True))
    return copy


def read_by(op: ir.Operation) -> list[Value]:
    """The operands of a loop, a branch or another operation, and what its regions read besides."""
    if op.name not in CONTROL:
        return list(op.operands)
    inside = {value for tie in ties(op) for value in tie.values}
    taken: dict[Value, None] = dict.fromkeys(op.operands)
    for inner, _, _ in walk(op, combiners=True):
        inside.update(inner.results)
        for region in inner.regions:
            inside.update(region.blocks[0].arguments)
        taken.update(dict.fromkeys(value for value in inner.operands if value not in inside))
    return list(taken)


def captured(op: ir.Operation, known: Sequence[Value] | dict[Any, Any]) -> list[Any]:
    """The values of `known` that operations in the regions of `op` read, each once."""
    found: dict[Value, None] = {}
    for inner, _, _ in walk(op, combiners=True):
        for value in inner.operands:
            if value in known:
                found[value] = None
    return list(found)


def trip_count(loop: ir.Operation) -> int | None:
    """Number of iterations of a `stablehlo.while` that counts up by a constant; None if unknown.

    The form recognised is the one JAX emits for `scan` and `fori_loop`: the condition compares a
    carried integer with a constant by LT, the body adds a constant to it, and its initial value is
    a constant.
    """
    condition, body = loop.regions[0].blocks[0], loop.regions[1].blocks[0]
    compare = made_by("stablehlo.compare", terminator(condition).operands[0])
    if compare is None:
        return None
    slot = _argument_number(compare.operands[0], condition)
    limit = _integer(compare.operands[1], loop, condition)
    if direction_of(compare) != "LT" or slot is None or limit is None:
        return None
    start = _integer(loop.operands[slot], loop, None)
    step = _step(body, slot, loop)
    if start is None or not step:
        return None
    return max(0, -(-(limit - start) // step))


def counted(loop: ir.Operation, slot: int) -> tuple[int, int] | None:
    """Start and step of a carried integer that a loop counts up by a constant; None of others."""
    start, body = _integer(loop.operands[slot], loop, None), loop.regions[1].blocks[0]
    step = None if start is None else _step(body, slot, loop)
    return None if start is None or step is None else (start, step)


def never_changed(value: Value) -> Value | None:
    """What a loop carries in and never changes, if this value is that inside; else None."""
    block = value.owner
    if not isinstance(block, ir.Block) or block.owner.name != "stablehlo.while":
        return None
    loop: ir.Operation = block.owner.operation
    slot, body = int(ir.BlockArgument(value).arg_number), loop.regions[1].blocks[0]
    is_kept = terminator(body).operands[slot] == body.arguments[slot]
    return loop.operands[slot] if is_kept else None


def outside(value: Value, block: ir.Block) -> Value | None:
    """What a value that a block of a loop reads is outside of it; None if the loop changes it."""
    return never_changed(value) if block_of(value) == block else value


def never_changed_in(loop: ir.Operation) -> set[int]:
    """Which values of a loop its body passes on as they came: they are the initial ones."""
    body = loop.regions[1].blocks[0]
    pairs = enumerate(zip(body.arguments, terminator(body).operands, strict=True))
    return {k for k, (argument, passed) in pairs if argument == passed}


def _step(body: ir.Block, slot: int, loop: ir.Operation) -> int | None:
    add = made_by("stablehlo.add", terminator(body).operands[slot])
    if add is None:
        return None
    for one, other in ((0, 1), (1, 0)):
        if _argument_number(add.operands[one], body) == slot:
            step = _integer(add.operands[other], loop, body)
            return step if step is not None and step > 0 else None
    return None


def _argument_number(value: Value, block: ir.Block) -> int | None:
    if isinstance(value.owner, ir.Block) and value.owner == block:
        return int(ir.BlockArgument(value).arg_number)
    return None


def _integer(value: Value, loop: ir.Operation, block: ir.Block | None) -> int | None:
    """The integer a value holds, if it is a constant or a carried value that never changes."""
    producer = maker_of(value)
    if producer is None:
        outside = never_changed(value) if block is not None and value.owner == block else None
        return None if outside is None else _integer(outside, loop, None)
    if producer.name != CONSTANT:
        return None
    attribute = constant_attribute(producer)
    if not isinstance(attribute, ir.DenseIntElementsAttr) or len(attribute) != 1:
        return None
    return int(attribute[0])
