"""Bodies that combine rows: tensors of any number of rows, each of which is computed by itself.

A body is written for some number of rows. The rules of its operations say which dimensions go
together; where one passes through all of them, the body can be applied to more rows or fewer, and
to parts of other dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtensor.dialect.mlir import Value, ir, ops_of, terminator
from dtensor.passes.disjoint_sets import DisjointSets
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.attributes import CONSTANT, integer, shape_of, splat_of
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.padding import Fill, Grown, as_it_stands
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule
from dtensor.passes.program import CONTROL, RETURNS, ties, walk

IOTA = "stablehlo.iota"


def combines_scalars(body: ir.Block) -> bool:
    """Whether a body is one of scalars, that of all elements by themselves."""
    return not any(shape_of(value) for value in body.arguments)


def is_row_work(op: ir.Operation) -> bool:
    """Whether an op can be applied to other numbers of rows, if its rule says so."""
    if op.name in CONTROL:
        return all(is_row_work(inner) for inner, name, _ in walk(op) if name not in RETURNS)
    definition = _definition(op)
    if definition.padding is None or definition.varies:
        return False
    info = OpInfo.of(op)
    return info is not None and definition.rule(info) is not None


def rows_flops(body: ir.Block) -> float:
    """Floating-point operations of a body, on as many rows as it is written for."""
    total = 0.0
    for op, name, scope in walk(body.owner.operation):
        info = None if name in CONTROL or name in RETURNS else OpInfo.of(op)
        if info is not None:
            total += _definition(op).count_flops(info) * (scope.trips or 1)
    return total


def fit_rows(
    op: ir.Operation, rule: OpRule, operands: Sequence[Value], results: Sequence[Value]
) -> list[ir.Operation]:
    """Write anew what an op says of sizes, which its rule was written for with other rows.

    `operands` and `results` are of the shapes that it is applied to, and gives.

    Returns:
        The operations that were created for it.
    """
    padding = _definition(op).padding
    if padding is None or padding.refit is as_it_stands:
        return []
    assert rule.op is not None
    given, made = (tuple([tuple(shape_of(v)) for v in values]) for values in (operands, results))
    if (given, made) == (rule.op.operand_shapes, rule.op.result_shapes):
        return []
    grown = Grown(op, rule, given, made, has_end=False)
    padding.refit(grown)
    return grown.made


def _definition(op: ir.Operation) -> OpDef:
    from dtensor.passes.ops.table import opdef  # the table reads the rule of a scan

    return opdef(op.name)


class BodyTies:
    """Which dimensions of the values in a body go together."""

    def __init__(self, body: ir.Block) -> None:
        self.body = body
        self._together = DisjointSets[object]()
        self._fixed: list[object] = []
        self._rules: dict[ir.Operation, OpRule] = {}
        for op, name, _ in walk(body.owner.operation):
            if name not in RETURNS:
                self._read(op)
        given, results = list(body.arguments), list(terminator(body).operands)
        for k, result in enumerate(results):
            for argument in (given[k], given[k + len(results)]):
                self._tie_values(result, argument)
        self._ends = {self._together.root(key) for key in self._fixed}

    def group(self, value: Value, dim: int) -> object | None:
        """What stands for all dimensions that are as long as one; None if it must stay so long."""
        root = self._together.root((value, dim))
        return None if root in self._ends else root

    def _read(self, op: ir.Operation) -> None:
        for tie in ties(op):
            values = [*tie.values, *(owner.operands[k] for owner, k in tie.sites)]
            for value in values[1:]:
                self._tie_values(values[0], value)
        if op.name in CONTROL:
            return
        info = OpInfo.of(op)
        rule = _definition(op).rule(info) if info is not None and is_row_work(op) else None
        maps = () if rule is None else (*rule.operands, *rule.results)
        passing = set() if rule is None else passing_factors(rule, op)
        if rule is not None:
            self._rules[op] = rule
        for k, value in enumerate((*op.operands, *op.results)):
            for d in range(len(shape_of(value))):
                found = maps[k][d] if rule is not None else None
                if found is None or found.factor not in passing:
                    self._fixed.append((value, d))
                else:
                    self._together.join((value, d), (op, found.factor))

    def _tie_values(self, one: Value, other: Value) -> None:
        for d in range(len(shape_of(one))):
            self._together.join((one, d), (other, d))

    def applied(self, ctx: ExpansionContext, arguments: Sequence[Value]) -> list[Value]:
        """What the body gives of arguments some of whose dimensions are longer or shorter."""
        known: dict[Value, Value] = dict(zip(self.body.arguments, arguments, strict=True))
        sizes = {
            self.group(value, d): size
            for value, given in known.items()
            for d, size in enumerate(ctx.shape_of(given))
        }
        *operations, last = ops_of(self.body)
        for op in operations:
            self._resize(ctx, op, ctx.clone(op), known, sizes)
        return [known[value] for value in last.operands]

    def _resize(
        self,
        ctx: ExpansionContext,
        op: ir.Operation,
        copy: ir.Operation,
        known: dict[Value, Value],
        sizes: Mapping[object, int],
    ) -> None:
        """Let a copy of an op read what is known in place of what the op reads, in its sizes."""
        for k, value in enumerate(op.operands):
            copy.operands[k] = known.get(value, value)
        self._retype(ctx, op.results, copy.results, known, sizes)
        if op.name in CONTROL:
            for region, other in zip(op.regions, copy.regions, strict=True):
                block, inner = region.blocks[0], other.blocks[0]
                self._retype(ctx, block.arguments, inner.arguments, known, sizes)
                for one, two in zip(block.operations, inner.operations, strict=True):
                    self._resize(ctx, one.operation, two.operation, known, sizes)
        elif op in self._rules:
            fit_rows(copy, self._rules[op], list(copy.operands), list(copy.results))

    def _retype(
        self,
        ctx: ExpansionContext,
        values: Sequence[Value],
        copies: Sequence[Value],
        known: dict[Value, Value],
        sizes: Mapping[object, int],
    ) -> None:
        for value, copy in zip(values, copies, strict=True):
            shape, element = ctx.read_type(value.type)
            groups = [self.group(value, d) for d in range(len(shape))]
            longer = [
                size if group is None else sizes.get(group, size)
                for group, size in zip(groups, shape, strict=True)
            ]
            copy.set_type(ctx.tensor_type(longer, element))
            known[value] = copy


def passing_factors(rule: OpRule, op: ir.Operation) -> set[int]:
    """The factors each iteration of which is computed by itself, and that are whole dimensions.

    What comes from nowhere must be the same in all of them.
    """
    definition = _definition(op)
    padding = definition.padding
    return {
        number
        for number, dims in enumerate(rule.dims_of_factor)
        if padding is not None
        and not definition.varies
        and all(rule.passed_on(*at) == number for at in dims)
        and padding.holds(rule, number) is Fill.ANY
        and (any(k >= 0 for k, _ in dims) or _is_repeated(rule, number, op))
    }


def reduced_factors(rule: OpRule, op: ir.Operation) -> set[int]:
    """The factors that are whole dimensions of operands alone, and reduced in any order."""
    padding = _definition(op).padding
    return {
        number
        for number, (factor, dims) in enumerate(zip(rule.factors, rule.dims_of_factor, strict=True))
        if factor.kind is FactorKind.REDUCTION
        and not factor.counts
        and padding is not None
        and padding.holds(rule, number) is Fill.IDENTITY
        and all(k >= 0 and rule.has_all(k, d) for k, d in dims)
    }


def _is_repeated(rule: OpRule, factor: int, op: ir.Operation) -> bool:
    """Whether a result is the same along a dimension that no operand has."""
    if op.name == IOTA:
        return (~0, integer(op.attributes["iota_dimension"])) not in rule.dims_of_factor[factor]
    if op.name == CONSTANT:
        return splat_of(op.results[0]) is not None
    return op.name == "stablehlo.broadcast_in_dim"
