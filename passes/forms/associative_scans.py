"""Scans as `jax.lax.associative_scan` writes them: many operations, which one stands for."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect import build
from dtensor.dialect.mlir import Value, ir, is_read, maker_of, operation_of, users
from dtensor.passes.builder import Builder, filling
from dtensor.passes.forms.levels import AssociativeScan
from dtensor.passes.forms.scalars import Scalars
from dtensor.passes.forms.scan_adjoints import write_gradient
from dtensor.passes.forms.scan_gradients import Gradient
from dtensor.passes.forms.weaves import WEAVES
from dtensor.passes.ops.attributes import splat_of
from dtensor.passes.ops.patterns import reverses, unreversed
from dtensor.passes.ops.rows import BodyTies
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import Operations, copy_to, read_by
from dtensor.passes.rewriting.rewriting import Rewriting


def replace_scans(function: Rewriting) -> None:
    """Let a `dtensor.scan` stand for each scan, and for its gradient."""
    groups, numbers = _groups(function.ops)
    if _replace_gradients(groups, list(numbers), function):
        function.clean()
        groups, numbers = _groups(function.ops)
    for group in _read_by_themselves(groups, numbers):
        _replace(group, numbers, function)


def _groups(
    program: Operations,
) -> tuple[list[list[AssociativeScan]], dict[ir.Operation, int]]:
    """The scans among operations, and if there are any the numbers of all operations.

    A scan of more operands gives what one of fewer does, where both begin with the same: they are a
    group, the first of which has the operands of all. The last come first: one may read what
    another gives.
    """
    found: list[AssociativeScan] = []
    seen: set[ir.Operation] = set()
    for op in reversed(program.named(*WEAVES)):
        if op not in seen:
            scan = AssociativeScan.of(op)
            if scan is not None:
                found.append(scan)
                seen |= scan.ops
    found.sort(key=lambda scan: -len(scan.inputs))
    groups: list[list[AssociativeScan]] = []
    numbers = {op: i for i, (op, _, _) in enumerate(program.visits)} if found else {}
    for scan in found:
        for group in groups:
            is_given = group[0].gives(scan)
            both = group[0] if is_given else group[0].with_operands_of(scan)
            if both is not None and _begins_after_operands([both, *group, scan], numbers):
                group[0] = both
                group.append(scan)
                break
        else:
            groups.append([scan])
    groups.sort(key=lambda group: -min(numbers[scan.root] for scan in group))
    return groups, numbers


def _replace_gradients(
    groups: Sequence[Sequence[AssociativeScan]], ops: Sequence[ir.Operation], function: Rewriting
) -> bool:
    """Write the gradients of scans anew; whether there are any."""
    blocks: dict[ir.Block, list[ir.Operation]] = {}
    for op in ops if groups else []:
        blocks.setdefault(op.block, []).append(op)
    found = [Gradient.of(group, blocks[group[0].root.block]) for group in groups]
    if not any(found):
        return False
    # An operation is another key once it reads something else: results stand for operations.
    places: dict[Value, int] = {result: i for i, op in enumerate(ops) for result in op.results}
    stands: dict[Value, Value] = {}
    for gradient in found:
        if gradient:
            write_gradient(gradient, places, stands, function)
    return True


def _read_by_themselves(
    groups: Sequence[list[AssociativeScan]], numbers: dict[ir.Operation, int]
) -> list[list[AssociativeScan]]:
    """Those of which nobody but these reads what lies between their operands and results."""
    left = list(groups)
    while True:
        inside = {op for group in left for scan in group for op in scan.ops}
        free = _of_constants(inside, numbers)
        kept = [group for group in left if not _is_read_outside(group, inside, free)]
        if len(kept) == len(left):
            return left
        left = kept


def _begins_after_operands(
    group: Sequence[AssociativeScan], numbers: dict[ir.Operation, int]
) -> bool:
    """Whether all operands of the first scan are there where the first of some is written."""
    first = min(numbers[scan.root] for scan in group)
    makers = [maker_of(value) for value in group[0].inputs]
    return all(maker is None or numbers.get(maker, -1) < first for maker in makers)


def _of_constants(inside: set[ir.Operation], numbers: dict[ir.Operation, int]) -> set[ir.Operation]:
    """The operations that compute of constants alone, whoever reads them."""
    found: set[ir.Operation] = set()
    for op in sorted(inside, key=lambda op: numbers[op]):
        if all(maker_of(value) in found or _is_constant(value) for value in read_by(op)):
            found.add(op)
    return found


def _is_constant(value: Value) -> bool:
    op = maker_of(value)
    is_given = op is not None and opdef(op.name).rematerialisable and not op.operands
    return is_given or splat_of(value) is not None


def _is_read_outside(
    group: Sequence[AssociativeScan], inside: set[ir.Operation], free: set[ir.Operation]
) -> bool:
    """Whether anybody else reads what lies between the operands and the results."""
    roots = {scan.root for scan in group}
    return any(
        _reader(use.owner.operation, op.block) not in inside
        for op in {op for scan in group for op in scan.ops} - roots - free
        for result in op.results
        for use in result.uses
    )


def _reader(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The operation of a block in whose regions another one stands, or which it is."""
    while op.block != block:
        assert op.parent is not None
        op = op.parent.operation
    return op


def _replace(
    group: Sequence[AssociativeScan], numbers: dict[ir.Operation, int], function: Rewriting
) -> None:
    scan = group[0]
    first = min((each.root for each in group), key=lambda op: numbers[op])
    given = [unreversed(value, scan.dim) for value in scan.inputs]
    is_reverse = all(value is not None for value in given)
    op = build.scan(
        [value for value in given if value is not None] if is_reverse else scan.inputs,
        scan.dim,
        is_reverse,
        None if scan.is_by_element else [scan.pairs[k].type for k in range(len(scan.inputs))],
        loc=scan.root.location,
        ip=ir.InsertionPoint(first),
    )
    function.made.append(op)
    if not _is_combined(op, scan):
        return
    for each in group:
        value = op.results[scan.inputs.index(each.inputs[0])]
        root: Value = each.root.results[0]
        if is_reverse:
            for user in users(root):
                if reverses(user, [scan.dim]):
                    function.replace(user, value)
            if is_read(root):
                value = Builder(each.root, function.made).reversed(value, scan.dim)
        function.replace_value(root, value)
        function.drop(*each.ops)


def _is_combined(op: ir.Operation, scan: AssociativeScan) -> bool:
    """Write what combines elements, or rows; whether each row is combined by itself."""
    block, count = op.regions[0].blocks[0], len(scan.inputs)
    trail = filling(block)
    known = {leaf: block.arguments[side * count + k] for leaf, (side, k) in scan.leaves.items()}
    if scan.is_by_element:
        scalars = Scalars(trail, known)
        trail.end([scalars.of(scan.pairs[k]) for k in range(count)])
        return True
    trail.end([_copied(scan.pairs[k], known, block) for k in range(count)])
    ties = BodyTies(block)
    groups = {ties.group(argument, scan.dim) for argument in block.arguments}
    return len(groups) == 1 and None not in groups


def _copied(value: Value, known: dict[Value, Value], block: ir.Block) -> Value:
    """A value computed in a block of what is known there."""
    left = [value]
    while left:
        if left[-1] in known:
            left.pop()
            continue
        maker = operation_of(left[-1])
        reads = read_by(maker)
        missing = [operand for operand in reads if operand not in known]
        left += missing
        if not missing:
            copy_to(ir.InsertionPoint(block), maker, known)
    return known[value]
