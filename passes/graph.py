"""One reading of the IR into integer lists, so that no inner loop touches MLIR.

A value of the program is an integer. A *node* is an op, or one of the places where a layout is
decided without an op: an argument, a loop-carried value, the join of branches, a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import Value, ir, ops_of, terminator
from dtensor.dialect.names import IN_LAYOUTS, MANUAL, OUT_LAYOUTS, RELAYOUT, TRIPS
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.manual import border_rule
from dtensor.passes.ops.opdef import nothing_known
from dtensor.passes.ops.rule import OpInfo, OpRule, element_bytes
from dtensor.passes.ops.table import opdef, rule_of
from dtensor.passes.program import (
    BARRIER,
    BRANCHES,
    CUSTOM_CALL,
    WHILE,
    Use,
    captured,
    free_axes,
    predicate,
    ties,
    trip_count,
    walk,
)

# Node kinds.
OP = "op"  # an op with or without a rule
ARGUMENT = "argument"  # a function argument
CONSTRAINT = "constraint"  # dtensor.relayout
CARRY = "carry"  # one loop-carried value: (init, yield) -> (condition arg, body arg, result)
JOIN = "join"  # one result of a case or if: (yield of each branch) -> result
THROUGH = "through"  # one operand of an optimization_barrier and the result it becomes
WHOLE_USE = "whole use"  # a predicate, or what else every device must see the same of
RESULT = "result"  # one value that the function returns
MANUAL_READ = "manual read"  # one operand of a dtensor.manual -> argument of its region
MANUAL_GIVE = "manual give"  # what the region returns -> one result of a dtensor.manual
BORDERS = (ARGUMENT, RESULT)
JOINTS = (CARRY, JOIN, THROUGH)  # all that is read and given is laid out alike
MANUAL_EDGES = (MANUAL_READ, MANUAL_GIVE)

UNKNOWN_TRIPS = 10.0
NO_TRIPS = 1e-9  # of what never runs: what cannot be moved there still cannot
_OURS = "dtensor."  # attributes that say nothing of what an operation computes
_PREFIX = len(_OURS)


@dataclass(slots=True)
class TypeInfo:
    """A tensor type, read once."""

    shape: tuple[int, ...]
    element: str
    bytes: float  # of the whole tensor
    itemsize: float


@dataclass
class Node:
    """A place where layouts are decided."""

    index: int
    kind: str
    name: str
    operation: ir.Operation
    operands: list[int]
    results: list[int]
    rule: OpRule | None
    weight: float  # how often it runs per execution of the program
    slot: int = 0  # argument, result, or carried-value number
    sites: Sequence[Use] = ()  # where the operands are read, if not at `operation` itself
    free: tuple[str, ...] | None = None  # the mesh axes that may be used here; None is all of them

    @property
    def info(self) -> OpInfo:
        """The operation with what its rule knows of it."""
        assert self.rule is not None, "an operation with a rule"
        return self.rule.info_of(self.operation)

    def may_use(self, axis: str) -> bool:
        """Whether a mesh axis is left to the planner here."""
        return self.free is None or axis in self.free

    @property
    def subject(self) -> int:
        """The value that a layout given to this node speaks of; a node that fixes one has one."""
        outside = self.results if self.kind == MANUAL_GIVE else self.operands
        return (outside or self.results)[0]

    @property
    def is_invariant(self) -> bool:
        """Whether it carries a value that its loop gives on as it came."""
        is_loop = self.kind == CARRY and len(self.operands) > 1
        return is_loop and self.operands[1] == self.results[1]

    def site(self, k: int) -> Use:
        """Where operand `k` is read: an operation, and which of its operands."""
        if self.sites:
            return self.sites[k]
        return self.operation, k


def title_of(operation: ir.Operation) -> str:
    """The name of an operation, and of what a custom call calls."""
    if operation.name != CUSTOM_CALL:
        return operation.name
    target = ir.StringAttr(operation.attributes["call_target_name"]).value
    return f"{operation.name} @{target}"


@dataclass
class Graph:
    """The values and nodes of `@main`, regions included, in program order."""

    values: list[Value] = field(default_factory=list)
    types: list[TypeInfo] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)  # per value: executions of its producer
    producer: list[int] = field(default_factory=list)  # per value: node
    producer_slot: list[int] = field(default_factory=list)  # per value: which result of the node
    uses: list[list[tuple[int, int]]] = field(default_factory=list)  # per value: (node, operand)
    nodes: list[Node] = field(default_factory=list)
    number: dict[Value, int] = field(default_factory=dict)
    unknown_trips: list[ir.Operation] = field(default_factory=list)

    def bytes(self, value: int) -> float:
        """Global size of a value in bytes."""
        return self.types[value].bytes


def op_info(
    op: ir.Operation, name: str, operands: Sequence[TypeInfo], results: Sequence[TypeInfo]
) -> OpInfo:
    """What a rule may look at."""
    return OpInfo(
        op,
        name,
        tuple([t.shape for t in operands]),
        tuple([t.shape for t in results]),
        tuple([t.element for t in operands]),
        tuple([t.element for t in results]),
    )


class OpReader:
    """Types and rules of operations, each read once.

    What another reader knows is taken from it, and told to it: rules hold the operation that they
    were read of, but of equal ones that are still there the rule is the same. Not so where regions
    read a value from outside, which may be another one by then.
    """

    def __init__(self, known: OpReader | None = None) -> None:
        self._types: dict[ir.Type, TypeInfo] = {} if known is None else known._types
        self._known: dict[object, OpRule | None] = {} if known is None else known._known
        self._rules: dict[object, OpRule | None] = {}

    def type_info(self, type_: ir.Type, where: ir.Operation | None) -> TypeInfo:
        """Shape and size of a type; `where` is what an error is about."""
        info = self._types.get(type_)
        if info is None:
            if not isinstance(type_, ir.RankedTensorType):
                try:
                    type_ = ir.RankedTensorType(type_)
                except ValueError:
                    info = TypeInfo((), str(type_), 0.0, 0.0)  # a token: nothing to lay out
                    self._types[type_] = info
                    return info
            shape = tuple(type_.shape)
            if any(type_.is_dynamic_dim(d) for d in range(len(shape))):
                assert where is not None
                error(where, f"{type_} has a dynamic dimension; give every dimension a size")
            element = str(type_.element_type)
            size = element_bytes(element)
            info = TypeInfo(shape, element, math.prod(shape) * size, size)
            self._types[type_] = info
        return info

    def rule(
        self,
        op: ir.Operation,
        name: str,
        operands: Sequence[TypeInfo],
        results: Sequence[TypeInfo],
        has_regions: bool,
    ) -> OpRule | None:
        """The rule of an operation on values of these types."""
        definition = opdef(name)
        region, is_closed = _region_key(op) if has_regions else ((), True)
        key = (
            name,
            tuple(map(id, operands)),
            tuple(map(id, results)),
            attribute_key(op),
            region,
            () if definition.known is nothing_known else definition.known(op),
        )
        rules = self._rules
        if key in rules:
            return rules[key]
        info = op_info(op, name, operands, results)
        if key in self._known:
            known = self._known[key]
            rule = None if known is None else known.of(info)
        else:
            rule = rule_of(info)
            if is_closed:
                self._known[key] = None if rule is None else rule.of(None)
        rules[key] = rule
        return rule

    def sides(self, op: ir.Operation) -> tuple[list[TypeInfo], list[TypeInfo]]:
        """Types of the operands and of the results of an operation."""
        operands = [self.type_info(value.type, op) for value in op.operands]
        return operands, [self.type_info(value.type, op) for value in op.results]


class _Reader(OpReader):
    """Builds the graph of one function."""

    def __init__(self, known: OpReader | None) -> None:
        super().__init__(known)
        self.graph = Graph()
        self.free: tuple[str, ...] | None = None  # in the region that is being read
        self._borders: dict[object, OpRule] = {}

    def add_value(
        self, value: Value, node: int, slot: int, weight: float, info: TypeInfo | None = None
    ) -> int:
        graph = self.graph
        if info is None:
            info = self.type_info(value.type, graph.nodes[node].operation)
        index = len(graph.values)
        graph.number[value] = index
        graph.values.append(value)
        graph.types.append(info)
        graph.weights.append(weight)
        graph.producer.append(node)
        graph.producer_slot.append(slot)
        graph.uses.append([])
        return index

    def add_node(
        self,
        kind: str,
        name: str,
        operation: ir.Operation,
        operands: list[int],
        weight: float,
        rule: OpRule | None = None,
        slot: int = 0,
        sites: Sequence[Use] = (),
    ) -> Node:
        graph = self.graph
        node = Node(
            len(graph.nodes),
            kind,
            name,
            operation,
            operands,
            [],
            rule,
            weight,
            slot,
            sites,
            self.free,
        )
        graph.nodes.append(node)
        for k, value in enumerate(operands):
            graph.uses[value].append((node.index, k))
        return node

    def read_function(self, function: ir.Operation) -> None:
        block = function.regions[0].blocks[0]
        for i, argument in enumerate(block.arguments):
            node = self.add_node(ARGUMENT, "argument", function, [], 1.0, slot=i)
            node.results.append(self.add_value(argument, node.index, 0, 1.0))
        yields = self.read_block(block, 1.0)
        end = terminator(block)
        for i, value in enumerate(yields):
            self.add_node(RESULT, "result", function, [value], 1.0, slot=i, sites=((end, i),))

    def read_block(self, block: ir.Block, weight: float) -> list[int]:
        """Read a block's ops; the values its terminator passes on."""
        number = self.graph.number
        *operations, end = ops_of(block)
        for op in operations:
            name = op.name
            operands = [number[v] for v in op.operands]
            if name == WHILE:
                self.read_while(op, operands, weight)
            elif name in BRANCHES:
                self.read_branches(op, operands, weight)
            elif name == BARRIER:
                self.read_barrier(op, operands, weight)
            elif name == MANUAL:
                self.read_manual(op, operands, weight)
            else:
                self.read_op(op, name, operands, weight)
        return [number[v] for v in end.operands]

    def read_op(self, op: ir.Operation, name: str, operands: list[int], weight: float) -> None:
        results = list(op.results)
        infos = [self.type_info(value.type, op) for value in results]
        kind, rule = (CONSTRAINT, None) if name == RELAYOUT else (OP, None)
        if kind is OP:
            types, has_regions = self.graph.types, len(op.regions) > 0
            rule = self.rule(op, name, [types[v] for v in operands], infos, has_regions)
            if has_regions:
                self.check_captured(op)
        node = self.add_node(kind, name, op, operands, weight, rule)
        for slot, (value, info) in enumerate(zip(results, infos, strict=True)):
            node.results.append(self.add_value(value, node.index, slot, weight, info))

    def read_barrier(self, op: ir.Operation, operands: list[int], weight: float) -> None:
        for slot, (value, tie) in enumerate(zip(operands, ties(op), strict=True)):
            node = self.add_node(THROUGH, op.name, op, [value], weight, slot=slot, sites=tie.sites)
            node.results.append(self.add_value(tie.values[0], node.index, 0, weight))

    def read_manual(self, op: ir.Operation, operands: list[int], weight: float) -> None:
        """A region over shards; what it leaves no axis for is one operation."""
        free, around = free_axes(op), self.free
        block, results = op.regions[0].blocks[0], list(op.results)
        yields: list[int] = []
        self.free = free
        for k, value in enumerate(operands):
            rule = self.border(op, IN_LAYOUTS, k, value, block.arguments[k]) if free else None
            sites = ((op, k),)
            node = self.add_node(
                MANUAL_READ, "shard_map", op, [value], weight, rule, slot=k, sites=sites
            )
            if free:
                node.results.append(self.add_value(block.arguments[k], node.index, 0, weight))
        if free:
            yields = self.read_block(block, weight)
        else:
            self.read_shut(op, weight)
        self.free = free
        end = terminator(block)
        for k, result in enumerate(results):
            inner = yields[k : k + 1]
            node = self.add_node(
                MANUAL_GIVE, "shard_map", op, inner, weight, slot=k, sites=((end, k),)
            )
            node.results.append(self.add_value(result, node.index, 0, weight))
            if free:
                node.rule = self.border(op, OUT_LAYOUTS, k, node.results[0], end.operands[k])
        self.free = around

    def border(self, op: ir.Operation, side: str, k: int, outer: int, shard: Value) -> OpRule:
        """The rule of one value at a region's border, shared where the same layout is asked for."""
        whole, part = self.graph.types[outer].shape, self.type_info(shard.type, op).shape
        key = (side, whole, part, ir.ArrayAttr(op.attributes[side])[k], self.free)
        found = self._borders.get(key)
        if found is None:
            found = self._borders[key] = border_rule(whole, part, side == IN_LAYOUTS)
        return found

    def read_shut(self, op: ir.Operation, weight: float) -> None:
        """What a region that is one operation reads from outside: whole, as it is written there.

        No program of jax's does, but C++ passes put constants where they serve all.
        """
        number = self.graph.number
        for inner, _, _ in walk(op, combiners=True):
            for k, value in enumerate(inner.operands):
                if value in number:
                    node = self.add_node(WHOLE_USE, "shard_map", inner, [number[value]], weight)
                    node.sites = ((inner, k),)

    def check_captured(self, op: ir.Operation) -> None:
        """Only constants may be read from outside by a body: C++ passes hoist those."""
        graph = self.graph
        for value in captured(op, graph.number):
            producer = graph.nodes[graph.producer[graph.number[value]]]
            if producer.rule is None or not producer.rule.is_free:
                error(
                    op,
                    f"the body of {op.name} reads a value from outside that is no constant, which "
                    "XLA cannot compile; make it an operand, or apply it before or after",
                )

    def read_while(self, op: ir.Operation, operands: list[int], weight: float) -> None:
        trips = trip_count(op)
        if trips is None and TRIPS in op.attributes:
            trips = integer(op.attributes[TRIPS])
        if trips is None:
            self.graph.unknown_trips.append(op)
        inside = weight * (UNKNOWN_TRIPS if trips is None else float(trips) or NO_TRIPS)
        condition, body = op.regions[0].blocks[0], op.regions[1].blocks[0]
        carries, carried = [], ties(op)
        for slot, (init, tie) in enumerate(zip(operands, carried, strict=True)):
            node = self.add_node(CARRY, WHILE, op, [init], weight, slot=slot, sites=tie.sites)
            for k, argument in enumerate(tie.values[:2]):
                node.results.append(self.add_value(argument, node.index, k, inside))
            carries.append(node)
        for value in self.read_block(condition, inside):
            site = predicate(op)
            self.add_node(WHOLE_USE, "loop predicate", op, [value], inside, sites=(site,))
        for node, value in zip(carries, self.read_block(body, inside), strict=True):
            self.graph.uses[value].append((node.index, len(node.operands)))
            node.operands.append(value)
        for node, tie in zip(carries, carried, strict=True):
            node.results.append(self.add_value(tie.values[2], node.index, 2, weight))

    def read_branches(self, op: ir.Operation, operands: list[int], weight: float) -> None:
        site = predicate(op)
        self.add_node(WHOLE_USE, "branch index", op, operands[:1], weight, sites=(site,))
        yields = [self.read_block(region.blocks[0], weight) for region in op.regions]
        for slot, tie in enumerate(ties(op)):
            passed = [branch[slot] for branch in yields]
            node = self.add_node(JOIN, op.name, op, passed, weight, slot=slot, sites=tie.sites)
            node.results.append(self.add_value(tie.values[0], node.index, 0, weight))


def attribute_key(op: ir.Operation) -> tuple[object, ...]:
    """What an op's attributes say as a key; by their text where jaxlib cannot read one."""
    try:
        items = op.attributes.items()
    except TypeError:  # dense complex elements
        return (str(op),)
    return tuple([item for item in items if item[0][:_PREFIX] != _OURS])


def _region_key(op: ir.Operation) -> tuple[tuple[object, ...], bool]:
    """What tells two combiner bodies apart: ops, wiring and attributes; whether it is all there."""
    key: list[object] = []
    numbers: dict[Value, int] = {}
    is_closed = True

    def read(owner: ir.Operation) -> None:
        nonlocal is_closed
        for region in owner.regions:
            for block in region.blocks:
                for value in block.arguments:
                    numbers[value] = len(numbers)
                for inner in ops_of(block):
                    wiring = tuple([numbers.get(v, v) for v in inner.operands])
                    is_closed &= all([isinstance(number, int) for number in wiring])
                    key.append((inner.name, wiring, attribute_key(inner), len(inner.regions)))
                    for result in inner.results:
                        numbers[result] = len(numbers)
                    read(inner)

    read(op)
    return tuple(key), is_closed


def read_graph(function: ir.Operation, known: OpReader | None = None) -> Graph:
    """The graph of one function whose calls have been inlined; `known` has read others before."""
    reader = _Reader(known)
    reader.read_function(function)
    return reader.graph
