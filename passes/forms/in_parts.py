"""Writing what is computed along a dimension for each of its parts by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dtensor.dialect.mlir import Value, ir, ops_of, terminator
from dtensor.passes.builder import Builder
from dtensor.passes.creation import Shape, with_sizes
from dtensor.passes.cuts.pieces import Operands, cut
from dtensor.passes.graph import Node
from dtensor.passes.ops.attributes import integer, shape_of, slice_numbers
from dtensor.passes.ops.rows import fit_rows
from dtensor.passes.program import BARRIER, BRANCHES, WHILE, holds_program
from dtensor.passes.rewriting.names import CONCATENATE, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting


def is_cut(op: ir.Operation, dim: int) -> bool:
    """Whether an operation cuts elements that are next to each other out of a dimension."""
    if op.name != SLICE:
        return False
    start, limit, stride = (numbers[dim] for numbers in slice_numbers(op))
    return start < limit and stride == 1


def is_join(op: ir.Operation, dim: int) -> bool:
    """Whether an operation joins values along a dimension."""
    return op.name == CONCATENATE and integer(op.attributes["dimension"]) == dim


@dataclass
class PartWriter:
    """Writes a function anew, in which one dimension of some values is in parts.

    Attributes:
        function: the function.
        dims: the values, and which dimension of each.
        passing: the operations that are applied to each part, and the factor that walks along it.
        bounds: where the parts begin, and the end of the last one.
    """

    function: Rewriting
    dims: Mapping[Value, int]
    passing: Mapping[ir.Operation, tuple[Node, int]]
    bounds: Sequence[int]
    _parts: dict[Value, list[Value]] = field(default_factory=dict)
    _gone: list[ir.Operation] = field(default_factory=list)
    _moved: list[ir.Block] = field(default_factory=list)

    def write(self) -> None:
        """Write it. What it held is erased: nobody may hold an operation of the function."""
        (block,) = self.function.function.regions[0].blocks
        self._block(block)
        self._take(terminator(block))
        self.function.drop(*self._gone)
        self.function.clean()
        for moved in self._moved:
            for k in reversed(range(len(moved.arguments))):
                if moved.arguments[k] in self.dims:
                    moved.erase_argument(k)

    def _block(self, block: ir.Block) -> None:
        ops = ops_of(block)
        self._cut(block.arguments, ops[0])
        for op, behind in pairwise(ops):
            self._write(op)
            self._cut(op.results, behind)

    def _cut(self, values: Sequence[Value], behind: ir.Operation) -> None:
        """Cut values into parts that are made whole."""
        make = Builder(behind, self.function.made)
        for value in values:
            if value in self.dims and value not in self._parts:
                dim = self.dims[value]
                self._parts[value] = [
                    make.cut(value, dim, start, end - start) for start, end in pairwise(self.bounds)
                ]

    def _take(self, op: ir.Operation) -> None:
        """Join the parts of what an operation reads whole."""
        make = Builder(op, self.function.made)
        for k, value in enumerate(op.operands):
            if value in self.dims:
                op.operands[k] = make.joined(self._parts[value], self.dims[value])

    def _write(self, op: ir.Operation) -> None:
        name = op.name
        has_parts = any(value in self.dims for value in op.results)
        if has_parts and (name in (WHILE, BARRIER) or name in BRANCHES):
            self._carry(op)
        elif holds_program(op, name):
            self._take(op)
            for region in op.regions:
                self._block(region.blocks[0])
        elif op in self.passing:
            self._apply(op)
        elif any(is_cut(op, self.dims[v]) for v in op.operands if v in self.dims):
            self._slice(op)
        elif any(is_join(op, self.dims[v]) for v in op.results if v in self.dims):
            self._join(op)
        else:
            self._take(op)

    def _spread(self, values: Sequence[Value]) -> list[Value]:
        """Those of some values that are whole, then the parts of the others."""
        whole = [value for value in values if value not in self.dims]
        return whole + [part for v in values if v in self.dims for part in self._parts[v]]

    def _say(self, values: Sequence[Value], parts: Iterable[Value]) -> None:
        """These are the parts of some values, of those that are in parts."""
        left = iter(parts)
        for value in values:
            if value in self.dims:
                self._parts[value] = [next(left) for _ in pairwise(self.bounds)]

    def _shape(self, value: Value, count: int) -> Shape:
        """The shape of a part of so many elements, or of a value that is whole."""
        shape = tuple(shape_of(value))
        return with_sizes(shape, self.dims[value], count) if value in self.dims else shape

    def _carry(self, op: ir.Operation) -> None:
        """A loop, a branch or a barrier passes the parts on."""
        make, results = Builder(op, self.function.made), list(op.results)
        types = [value.type for value in results if value not in self.dims]
        parts = [
            make.tensor_type(self._shape(value, end - start), make.element_of(value))
            for value in results
            if value in self.dims
            for start, end in pairwise(self.bounds)
        ]
        new = make.create(
            op.name,
            self._spread(op.operands),
            [*types, *parts],
            dict(op.attributes),
            len(op.regions),
        )
        for region, other in zip(op.regions, new.regions, strict=True):
            block = region.blocks[0]
            block.append_to(other)
            if op.name == WHILE:
                self._moved.append(block)
                given = list(block.arguments)
                self._say(given, [block.add_argument(type_, op.location) for type_ in parts])
        for region in new.regions:
            block = region.blocks[0]
            self._block(block)
            self.function.end(block, self._spread(terminator(block).operands))
        self._say(results, list(new.results)[len(types) :])
        for value, now in zip(
            [v for v in results if v not in self.dims], new.results, strict=False
        ):
            value.replace_all_uses_with(now)
        self._gone.append(op)

    def _apply(self, op: ir.Operation) -> None:
        """An operation is applied to each part; what it reduces them to is reduced."""
        make, (node, factor) = Builder(op, self.function.made), self.passing[op]
        rule = node.rule
        assert rule is not None, "it has factors"
        found = list[list[Value]]()
        for k, (start, end) in enumerate(pairwise(self.bounds)):
            operands = [self._parts[v][k] if v in self.dims else v for v in op.operands]
            for once in rule.factors[factor].partial_operands if k else ():
                neutral = rule.factors[factor].reduction
                assert neutral is not None, "parts of a reduction"
                operands[once] = make.identity(neutral, operands[once].type)
            shapes = [self._shape(result, end - start) for result in op.results]
            part = make.again(op, operands, shapes)
            self.function.made += fit_rows(part, rule, operands, list(part.results))
            found.append(list(part.results))
        for result, parts in zip(op.results, zip(*found, strict=True), strict=True):
            if result in self.dims:
                self._parts[result] = list(parts)
            else:
                reduction = rule.factors[factor].reduction
                assert reduction is not None, "what each part gives by itself is in parts"
                result.replace_all_uses_with(make.combined(reduction.op.partition(".")[2], parts))
        self._gone.append(op)

    def _slice(self, op: ir.Operation) -> None:
        """What is cut out is cut out of the parts that have some of it."""
        make, value = Builder(op, self.function.made), op.operands[0]
        dim, (starts, limits, strides) = self.dims[value], slice_numbers(op)
        first, last, found = starts[dim], limits[dim], list[Value]()
        for part, (start, end) in zip(self._parts[value], pairwise(self.bounds), strict=True):
            starts[dim], limits[dim] = max(first, start) - start, min(last, end) - start
            if starts[dim] < limits[dim]:
                is_all = list(limits) == shape_of(part) and not any(starts) and max(strides) == 1
                found.append(part if is_all else make.slice(part, starts, limits, strides))
        op.results[0].replace_all_uses_with(make.joined(found, dim))
        self._gone.append(op)

    def _join(self, op: ir.Operation) -> None:
        """A part is joined of what is joined there."""
        self._take(op)
        make, result = Builder(op, self.function.made), op.results[0]
        dim, self._parts[result] = self.dims[result], []
        for start, end in pairwise(self.bounds):
            pieces = cut(Operands().of_result(op, dim) or (), start, end - start)
            found = [make.cut(each.source.value, dim, each.start, each.count) for each in pieces]
            self._parts[result].append(make.joined(found, dim))
        self._gone.append(op)
