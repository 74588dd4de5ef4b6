"""The pass that moves, merges and drops relayouts in the program of global shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.attributes import layouts_array_attr
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import (
    Value,
    forget,
    ir,
    is_read,
    made_by,
    maker_of,
    reader_of,
    replace_op,
)
from dtensor.dialect.names import OPERANDS, RESULTS
from dtensor.passes.base import Pass, PassState
from dtensor.passes.creation import Creator
from dtensor.passes.ops.attributes import itemsize
from dtensor.passes.ops.elementwise import CONVERT
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.table import opdef, rule_of
from dtensor.passes.program import WHILE, Scope, outside
from dtensor.passes.relayout.values import Relayouts


def erase_needless(work: Relayouts) -> bool:
    """Erase relayouts that nobody uses, or to the layout the value has anyway."""
    changed = False
    for number, op in reversed(list(work.ops.items())):
        value = op.operands[0]
        if not is_read(op.results[0]):
            work.erase(number)
            changed = True
        elif work.layout(value) == work.after(op):
            work.replace(number, value)
            changed = True
    return changed


def share_equal(work: Relayouts) -> bool:
    """Use one relayout for all uses that want one value in one layout."""
    changed = False
    seen: dict[tuple[Scope, Value, object], ir.Operation] = {}
    for number, op in list(work.ops.items()):
        if number >= work.in_order:
            break  # made since reading: not in program order
        scope, value, layout = work.scopes[number], op.operands[0], work.after(op)
        keys = [(around, value, layout) for around in scope.outwards()]
        earlier = next((seen[key] for key in keys if key in seen), None)
        if earlier is None:
            seen[scope, value, layout] = op
        else:
            work.replace(number, earlier.results[0])
            changed = True
    return changed


def shorten_chains(work: Relayouts) -> bool:
    """A relayout of a relayout starts from the first value, where that costs no more."""
    changed = False
    for number, op in list(work.ops.items()):
        inner = made_by(op.name, op.operands[0])
        if inner is None:
            continue
        source = inner.operands[0]
        before, after = work.layout(source), work.after(op)
        if before is None or (before.partial and after.partial not in ((), before.partial)):
            continue  # of different reductions
        if reader_of(inner.results[0]) is None:
            direct = work.seconds(source, before, after)
            if direct > work.seconds(source, work.after(inner), after):
                continue
        why = "the layout in between is not needed"
        made = work.create(source, after, ir.InsertionPoint(op), number, why)
        work.replace(number, made)
        changed = True
    return changed


def delay_reductions(work: Relayouts) -> bool:
    """`relayout(a) + relayout(b)`, from the same partial layout to the same complete one.

    One relayout of `a + b` moves half as much. Only where both relayouts have no other use: then
    nothing else changes.
    """
    changed = False
    for number, op in list(work.ops.items()):
        user = reader_of(op.results[0]) if number in work.ops else None
        pair = None if user is None else _pair(work, user)
        if user is None or pair is None or number not in pair:
            continue
        operands = [work.ops[n].operands[0] for n in pair]
        after = work.after(work.ops[pair[0]])
        joined = _again(user, operands, work.layout(operands[0]), user)
        why = f"two such values are combined by {user.name} before they are reduced"
        made = work.create(joined, after, ir.InsertionPoint(user), pair[0], why)
        replace_op(user, [made])
        work.erase(pair[0])
        work.erase(pair[1])
        changed = True
    return changed


def _pair(work: Relayouts, user: ir.Operation) -> tuple[int, int] | None:
    """The two relayouts that an operation combines, if they may be joined."""
    if len(user.operands) != 2 or len(user.results) != 1:
        return None
    numbers = [work.relayout_of(value) for value in user.operands]
    if numbers[0] is None or numbers[1] is None or numbers[0] == numbers[1]:
        return None
    first, second = work.ops[numbers[0]], work.ops[numbers[1]]
    if any(reader_of(op.results[0]) is None for op in (first, second)):
        return None
    before = work.layout(first.operands[0])
    if before is None or before != work.layout(second.operands[0]):
        return None
    kinds = {kind for _, kind in before.partial}
    reduces = bool(kinds) and not work.after(first).partial
    alike = work.after(first) == work.after(second)
    if not (reduces and alike and _passes(user, kinds)):
        return None
    return numbers[0], numbers[1]


def _passes(user: ir.Operation, kinds: set[str]) -> bool:
    """Whether an element-wise op of two parts of these kinds gives a part of the result."""
    info = OpInfo.of(user)
    if info is None or {v.type for v in user.operands} != {user.results[0].type}:
        return False
    rule = rule_of(info)
    if rule is None:
        return False
    passed = {p.results[0] for p in rule.passes if p.operands == p.results * 2}
    return kinds <= passed


def move_narrow_values(work: Relayouts) -> bool:
    """Gather a parameter after it was converted to bf16, and before it is converted to f32.

    Not for partial values: converting does not commute with every reduction.
    """
    changed = False
    for number, op in list(work.ops.items()):
        before, after = work.layout(op.operands[0]), work.after(op)
        if before is None or before.partial or after.partial:
            continue
        if not work.seconds(op.operands[0], before, after):
            continue
        changed = _sink(work, number, op, before) or _hoist(work, number, op) or changed
    return changed


def _sink(work: Relayouts, number: int, op: ir.Operation, before: Layout) -> bool:
    """`convert(relayout(x))` to a narrower type."""
    user = reader_of(op.results[0])
    if user is None or opdef(user.name) is not CONVERT:
        return False
    if itemsize(user.results[0]) >= itemsize(op.results[0]):
        return False
    narrow = _again(user, op.operands, before, user)
    why = "converted to a narrower type first"
    made = work.create(narrow, work.after(op), ir.InsertionPoint(user), number, why)
    replace_op(user, [made])
    work.erase(number)
    return True


def _hoist(work: Relayouts, number: int, op: ir.Operation) -> bool:
    """`relayout(convert(x))` from a narrower type."""
    convert = maker_of(op.operands[0])
    if convert is None or opdef(convert.name) is not CONVERT:
        return False
    source = convert.operands[0]
    if itemsize(source) >= itemsize(op.operands[0]) or reader_of(op.operands[0]) is None:
        return False
    if work.layout(source) != work.layout(op.operands[0]):
        return False
    after = work.after(op)
    why = "converted to a wider type afterwards"
    moved = work.create(source, after, ir.InsertionPoint(op), number, why)
    wide = _again(convert, [moved], after, op)
    work.replace(number, wide)
    convert.erase()
    return True


def hoist_invariants(work: Relayouts) -> bool:
    """Move relayouts of loop-invariant values in front of their loop.

    A value is invariant if it is defined outside, or carried and yielded as it came. What is moved
    stays in memory for the whole loop: only relayouts that communicate are worth it.
    """
    changed = False
    for number, op in list(work.ops.items()):
        loop = op.parent.operation if op.parent is not None else None
        if loop is None or loop.name != WHILE:
            continue
        value = op.operands[0]
        before, after = work.layout(value), work.after(op)
        given = outside(value, op.block)
        if given is None or before is None or work.layout(given) != before:
            continue
        if not work.seconds(value, before, after):
            continue
        why = "the loop does not change the value: moved in front of it"
        made = work.create(given, after, ir.InsertionPoint(loop), number, why)
        around = work.scopes[number].parent
        assert around is not None, "the block of a loop"
        work.scopes[-1] = around
        work.replace(number, made)
        changed = True
    return changed


def _again(
    op: ir.Operation, operands: Sequence[Value], layout: Layout | None, before: ir.Operation
) -> Value:
    """What an operation gives of other operands, in a layout; it stands before another one."""
    copy = Creator(before).again(op, operands)
    forget(copy, OPERANDS)
    copy.attributes[RESULTS] = layouts_array_attr((layout,))
    result: Value = copy.results[0]
    return result


REWRITES: tuple[Callable[[Relayouts], bool], ...] = (
    share_equal,
    shorten_chains,
    erase_needless,
    delay_reductions,
    move_narrow_values,
    hoist_invariants,
)
MAX_ROUNDS = 8  # every rewrite makes relayouts fewer, narrower or more outward; this is a guard


@dataclass(frozen=True)
class OptimizeRelayoutsPass(Pass):
    """Makes the relayouts of a program fewer and cheaper, without changing any strategy.

    Relayouts that undo one another cancel, and equal ones are shared; two partial values that are
    reduced and then added are added first; a value that is converted moves in its narrower type;
    and what a loop does not change is moved in front of it.
    """

    name: ClassVar[str] = "dtensor-optimize-relayouts"
    needs_mesh: ClassVar[bool] = True

    hoist: bool = True  # move relayouts of loop-invariant values out of loops: costs memory there
    narrow: bool = True  # move relayouts to the narrower side of a conversion

    def run(self, module: ir.Module, state: PassState) -> None:
        work = Relayouts(module, state, state.meshes)
        if not work.ops:
            return
        off = [move_narrow_values] * (not self.narrow) + [hoist_invariants] * (not self.hoist)
        for _ in range(MAX_ROUNDS):
            changed = [rewrite(work) for rewrite in REWRITES if rewrite not in off]
            if not any(changed):
                break
        state.forget_ir()
