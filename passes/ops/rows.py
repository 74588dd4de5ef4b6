"""Bodies that combine rows: tensors of any number of rows, each of which is computed by itself.

A body is written for some number of rows. The rules of its operations say which dimensions go
together; where one passes through all of them, the body can be applied to more rows or fewer, and
to parts of other dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir, terminator
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.attributes import CONSTANT, integers, shape_of, splat_of
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule

_SLICE = "stablehlo.slice"
_LIMITS = "limit_indices"
# What these say of dimensions that pass through is that they are whole, or nothing.
_RESIZED = frozenset((_SLICE, "stablehlo.reduce"))


def combines_scalars(body: ir.Block) -> bool:
    """Whether a body is one of scalars, that of all elements by themselves."""
    return not any(shape_of(value) for value in body.arguments)


def is_row_work(op: ir.Operation) -> bool:
    """Whether an op can be applied to other numbers of rows, if its rule says so."""
    if len(op.results) != 1 or (len(op.regions) and op.name not in _RESIZED):
        return False
    if op.name in _RESIZED:
        return True
    found = _definition(op).algorithm("local")
    return bool(len(op.operands)) and found is not None and found.expand is None


def rows_flops(body: ir.Block) -> float:
    """Floating-point operations of a body, on as many rows as it is written for."""
    ops = [view.operation for view in body.operations][:-1]
    known = [(op, OpInfo.of(op)) for op in ops]
    return sum(_definition(op).count_flops(info) for op, info in known if info is not None)


def _definition(op: ir.Operation) -> OpDef:
    from dtensor.passes.ops.table import opdef  # the table reads the rule of a scan

    return opdef(op.name)


class Ties:
    """Which dimensions of the values in a body go together."""

    def __init__(self, body: ir.Block) -> None:
        self.body = body
        self._parents: dict[object, object] = {}
        self._fixed: list[object] = []
        for view in body.operations:
            op = view.operation
            if op == terminator(body):
                break
            self._read(op)
        given, results = list(body.arguments), list(terminator(body).operands)
        for k, result in enumerate(results):
            for argument in (given[k], given[k + len(results)]):
                for d in range(len(shape_of(result))):
                    self._tie((result, d), (argument, d))
        self._ends = {self._root(key) for key in self._fixed}

    def group(self, value: Value, dim: int) -> object | None:
        """What stands for all dimensions that are as long as one; None if it must stay so long."""
        root = self._root((value, dim))
        return None if root in self._ends else root

    def _read(self, op: ir.Operation) -> None:
        if op.name == CONSTANT and splat_of(op.results[0]) is not None:
            return
        info = OpInfo.of(op)
        rule = _definition(op).rule(info) if info is not None and is_row_work(op) else None
        maps = () if rule is None else (*rule.operands, *rule.results)
        passing = set() if rule is None else _passing(rule)
        for k, value in enumerate((*op.operands, *op.results)):
            for d in range(len(shape_of(value))):
                found = maps[k][d] if rule is not None else None
                if found is None or found.factor not in passing:
                    self._fixed.append((value, d))
                else:
                    self._tie((value, d), (op, found.factor))

    def _root(self, key: object) -> object:
        while key in self._parents:
            key = self._parents[key]
        return key

    def _tie(self, one: object, other: object) -> None:
        roots = self._root(one), self._root(other)
        if roots[0] != roots[1]:
            self._parents[roots[0]] = roots[1]

    def applied(self, ctx: ExpansionContext, arguments: Sequence[Value]) -> list[Value]:
        """What the body gives of arguments some of whose dimensions are longer or shorter."""
        known: dict[Value, Value] = dict(zip(self.body.arguments, arguments, strict=True))
        sizes = {
            self.group(value, d): size
            for value, given in known.items()
            for d, size in enumerate(ctx.shape_of(given))
        }
        last = terminator(self.body)
        for view in self.body.operations:
            op = view.operation
            if op == last:
                break
            result: Value = op.results[0]
            shape, element = ctx.read_type(result.type)
            groups = [self.group(result, d) for d in range(len(shape))]
            longer = [
                size if group is None else sizes.get(group, size)
                for group, size in zip(groups, shape, strict=True)
            ]
            number = splat_of(result) if op.name == CONSTANT else None
            type_ = ctx.tensor_type(longer, element)
            if number is not None:
                known[result] = ctx.dense(ir.DenseElementsAttr.get_splat(type_, number), type_)
                continue
            copy = ctx.clone(op)
            for k, value in enumerate(op.operands):
                copy.operands[k] = known[value]
            if op.name == _SLICE:
                limits = zip(integers(op.attributes[_LIMITS]), groups, longer, strict=True)
                ends = [end if group is None else size for end, group, size in limits]
                copy.attributes[_LIMITS] = ir.DenseI64ArrayAttr.get(ends)
            copy.results[0].set_type(type_)
            known[result] = copy.results[0]
        return [known[value] for value in last.operands]


def _passing(rule: OpRule) -> set[int]:
    """The factors each iteration of which is computed by itself, and that are whole dimensions."""
    maps = [
        found for dims in (*rule.operands, *rule.results) for found in dims if found is not None
    ]
    partial = {
        found.factor
        for found in maps
        if (found.before, found.outer, found.size) != (1, 1, rule.factors[found.factor].size)
    }
    return {
        number
        for number, factor in enumerate(rule.factors)
        if factor.kind is FactorKind.PASS_THROUGH and number not in partial
    }
