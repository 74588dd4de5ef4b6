"""Relayouts that cancel, that follow one another, or that are there twice."""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.program import Scope
from dtensor.passes.relayout.values import Relayouts, has_one_use


def erase_needless(work: Relayouts) -> bool:
    """Erase relayouts that nobody uses, or to the layout the value has anyway."""
    changed = False
    for number, op in reversed(list(work.ops.items())):
        value = op.operands[0]
        if next(iter(op.results[0].uses), None) is None:
            work.erase(number)
            changed = True
        elif work.layout(value) == work.after(op):
            work.replace(number, value)
            changed = True
    return changed


def share_equal(work: Relayouts) -> bool:
    """Use one relayout for all uses that want one value in one layout."""
    changed = False
    seen: dict[tuple[Scope | None, Value, object], ir.Operation] = {}
    for number, op in list(work.ops.items()):
        if number >= work.in_order:
            break  # made since reading: not in program order
        scope, value, layout = work.scopes[number], op.operands[0], work.after(op)
        keys = [(around, value, layout) for around in (scope.outwards() if scope else ())]
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
        inner = op.operands[0].owner
        if isinstance(inner, ir.Block) or inner.operation.name != op.name:
            continue
        source = inner.operation.operands[0]
        before, after = work.layout(source), work.after(op)
        if before is None or _kinds_clash(before.partial, after.partial):
            continue
        if not has_one_use(inner.operation.results[0]):
            direct = work.seconds(source, before, after)
            if direct > work.seconds(source, work.after(inner.operation), after):
                continue
        why = "the layout in between is not needed"
        made = work.create(source, after, ir.InsertionPoint(op), number, why)
        work.replace(number, made)
        changed = True
    return changed


def _kinds_clash(before: object, after: object) -> bool:
    return bool(before) and bool(after) and before != after
