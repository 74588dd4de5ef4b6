"""Sums of parts: add first, then reduce once."""

from __future__ import annotations

from dtensor.dialect import names
from dtensor.dialect.attributes import layouts_array_attr
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.table import rule_of
from dtensor.passes.relayout.values import Relayouts, has_one_use


def delay_reductions(work: Relayouts) -> bool:
    """`relayout(a) + relayout(b)`, from the same partial layout to the same complete one.

    One relayout of `a + b` moves half as much. Only where both relayouts have no other use: then
    nothing else changes.
    """
    changed = False
    for number, op in list(work.ops.items()):
        if number not in work.ops or not has_one_use(op.results[0]):
            continue
        user = next(iter(op.results[0].uses)).owner.operation
        pair = _pair(work, user)
        if pair is None or number not in pair:
            continue
        operands = [work.ops[n].operands[0] for n in pair]
        after = work.after(work.ops[pair[0]])
        joined = _joined(user, operands, work.layout(operands[0]))
        why = f"two such values are combined by {user.name} before they are reduced"
        made = work.create(joined, after, ir.InsertionPoint(user), pair[0], why)
        user.results[0].replace_all_uses_with(made)
        user.erase()
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
    if not (has_one_use(first.results[0]) and has_one_use(second.results[0])):
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


def _joined(user: ir.Operation, operands: list[Value], layout: Layout | None) -> Value:
    attributes = {name: user.attributes[name] for name in user.attributes}
    attributes.pop(names.OPERANDS, None)
    attributes[names.RESULTS] = layouts_array_attr((layout,))
    joined: Value = ir.Operation.create(
        user.name,
        results=[user.results[0].type],
        operands=operands,
        attributes=attributes,
        loc=user.location,
        ip=ir.InsertionPoint(user),
    ).results[0]
    return joined
