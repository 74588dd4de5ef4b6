"""One block of a planned program as a program of its own, and the program of one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dtensor.compiler.verification.numbering import Numbering
from dtensor.dialect import build
from dtensor.dialect.attributes import layouts_array_attr, layouts_of_array, read_meshes
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import manual_part
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir, made_by, maker_of, ops_of, replace_op, terminator
from dtensor.dialect.names import (
    ALGORITHM,
    ARG_ATTRS,
    FUNC,
    IN_LAYOUTS,
    MAIN,
    MANUAL,
    MESH_OP,
    OPERANDS,
    OUT_LAYOUTS,
    RELAYOUT,
    RES_ATTRS,
    RESULTS,
    SYM_NAME,
)
from dtensor.passes.functions import main_function, set_boundary_layouts
from dtensor.passes.ops.attributes import CONSTANT, constant_of
from dtensor.passes.program import BARRIER, CONTROL, RETURNS, free_axes, walk

Value = ir.Value[Any]


@dataclass(frozen=True, eq=False)
class Extracted:
    """A block as the one function of a module; handles, for as long as the module is transformed.

    Attributes:
        module: the module; its `main` still lacks a terminator and its type.
        function: `main`.
        block: its block.
        arguments: numbers of its arguments: those of the block, then what it reads from outside.
        own: how many of the arguments are the block's.
        operations: the operations, in order.
        operands: the numbers of what each operation reads.
        results: the numbers of the results of each operation.
        regions: of each operation, which blocks of the program its regions are.
        yields: numbers of what the block passes on.
        passed: what the block passes on.
        mesh: the mesh of the program.
        free: the axes that the shard_map around the block leaves to the planner, if it is in one.
    """

    module: ir.Module
    function: ir.Operation
    block: ir.Block
    arguments: tuple[int, ...]
    own: int
    operations: tuple[ir.Operation, ...]
    operands: tuple[tuple[int, ...], ...]
    results: tuple[tuple[int, ...], ...]
    regions: tuple[tuple[int, ...], ...]
    yields: tuple[int, ...]
    passed: tuple[Value, ...]
    mesh: Mesh
    free: tuple[str, ...] | None

    def finish(self, results: Sequence[Value], layouts: Sequence[Layout]) -> None:
        """Return these values; where the block is of a shard_map, all stands in one again.

        Args:
            results: values of the block.
            layouts: their layouts.
        """
        if self.free is not None:
            results = self._enclosed(self.free, results, layouts)
        point = ir.InsertionPoint(self.block)
        ir.Operation.create("func.return", [], list(results), ip=point)
        types = [argument.type for argument in self.block.arguments]
        function = ir.FunctionType.get(types, [value.type for value in results])
        self.function.attributes["function_type"] = ir.TypeAttr.get(function)

    def _enclosed(
        self, free: Sequence[str], results: Sequence[Value], layouts: Sequence[Layout]
    ) -> Sequence[Value]:
        """Put all in a region whose border changes nothing: devices differ over other axes."""
        given = list(self.block.arguments)
        body = ops_of(self.block)
        region = build.manual(
            given,
            [Layout.replicated(self.mesh, _rank(value.type)) for value in given],
            [value.type for value in results],
            [Layout.replicated(self.mesh, len(layout.dims)) for layout in layouts],
            free,
            ip=ir.InsertionPoint(self.block),
        )
        region.attributes[RESULTS] = layouts_array_attr(tuple(layouts))
        inside = region.regions[0].blocks[0]
        for value, argument in zip(given, inside.arguments, strict=True):
            value.replace_all_uses_except(argument, region)
        end = ir.Operation.create(
            "stablehlo.return", [], list(results), ip=ir.InsertionPoint(inside)
        )
        for op in body:
            op.move_before(end)
        return list(region.results)

    def lay_out(self, arguments: Sequence[Layout | None], results: Sequence[Layout | None]) -> None:
        """Write the layouts of the finished function's arguments and results."""
        set_boundary_layouts(self.function, ARG_ATTRS, arguments)
        set_boundary_layouts(self.function, RES_ATTRS, results)


def extracted(module: ir.Module, number: int, mesh: Mesh) -> Extracted:
    """Make block `number` of the program its `main`; the rest of it is gone afterwards."""
    numbering = Numbering(module)
    numbers = numbering.numbers
    block = numbering.blocks[number]
    outside = _read_from_outside(block)
    passed_on = _passed_on(block)
    given = [value for value in outside if value in passed_on or not _is_constant(value)]
    values = [*block.arguments, *given]
    main = main_function(module)
    function = ir.Operation.create(
        FUNC,
        regions=1,
        attributes={
            SYM_NAME: ir.StringAttr.get("verified"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
        },
        ip=ir.InsertionPoint(main),
        loc=main.location,
    )
    types = [value.type for value in values]
    copy = function.regions[0].blocks.append(*types)
    arguments: dict[Value, Value] = dict(zip(values, copy.arguments, strict=True))
    known = dict(arguments)
    # A combiner may read them, which must not read an argument; others say what is known of them.
    for value in outside:
        maker = constant_of(value)
        if maker is None or maker.results[0].type != value.type:
            continue
        made = maker.clone(ip=ir.InsertionPoint(copy)).operation
        known[value] = made.results[0]
    free = numbering.free(number)
    originals, operations = [], []
    passed: list[Value] = []
    for op in ops_of(block):
        if op.name in RETURNS:
            passed = list(op.operands)
            continue
        clone = op.clone(ip=ir.InsertionPoint(copy)).operation
        _rewire(clone, known, arguments)
        known.update(zip(op.results, clone.results, strict=True))
        if free != ():  # no operation of another region has numbers
            originals.append(op)
            operations.append(clone)
    found = Extracted(
        module,
        function,
        copy,
        tuple([numbers[value] for value in values]),
        len(block.arguments),
        tuple(operations),
        tuple([tuple([numbers[value] for value in op.operands]) for op in originals]),
        tuple([tuple([numbers[value] for value in op.results]) for op in originals]),
        tuple([numbering.regions.get(op, ()) for op in originals]),
        tuple([numbers[value] for value in passed]),
        tuple([(known | arguments).get(value, value) for value in passed]),
        mesh,
        free,
    )
    main.erase()
    function.attributes[SYM_NAME] = ir.StringAttr.get(MAIN)
    return found


def inside(op: ir.Operation) -> Iterator[ir.Operation]:
    """An operation and all that stand in its regions, combiners too."""
    yield op
    for region in op.regions:
        for block in region:
            for inner in ops_of(block):
                yield from inside(inner)


def _read_from_outside(block: ir.Block) -> list[Value]:
    made: set[Value] = set(block.arguments)
    read: dict[Value, None] = {}
    for outer in ops_of(block):
        for op in inside(outer):
            for region in op.regions:
                for inner in region:
                    made.update(inner.arguments)
            read.update(dict.fromkeys(op.operands))
            made.update(op.results)
    return [value for value in read if value not in made]


_PASSING = (*RETURNS, *CONTROL)


def _passed_on(block: ir.Block) -> set[Value]:
    """What this block, or one inside of it, passes on as it is, or starts a loop from."""
    everything = (op for outer in ops_of(block) for op in inside(outer))
    return {value for op in everything if op.name in _PASSING for value in op.operands}


def _is_constant(value: Value) -> bool:
    return made_by(CONSTANT, value) is not None


def _rewire(clone: ir.Operation, known: dict[Value, Value], arguments: dict[Value, Value]) -> None:
    """Let a clone read what is known here; what only passes values on, the arguments."""
    for op in inside(clone):
        first = arguments if op.name in _PASSING else known
        for k, value in enumerate(op.operands):
            if value in known:
                op.operands[k] = first.get(value, known[value])


def hold_results(module: ir.Module) -> None:
    """Let all that read a result of `main` read what is returned, and not compute it once more.

    XLA may compute a value again in each fusion that reads it, and write `log(sqrt(x))` as half of
    `log(x)`: what was looked at is then not what was read.

    Args:
        module: a program of one device, lowered.
    """
    end = terminator(main_function(module).regions[0].blocks[0])
    for value in dict.fromkeys(end.operands):
        maker = maker_of(value)
        if maker is None or maker.name == CONSTANT:  # XLA wants to see some constants
            continue
        held = ir.Operation.create(
            BARRIER, [value.type], [value], ip=ir.InsertionPoint.after(maker), loc=maker.location
        )
        value.replace_all_uses_except(held.results[0], held)


def undivided(module: ir.Module, mesh: Mesh) -> None:
    """Each device of `mesh` holds every value whole; relayouts go.

    Around a `dtensor.manual` the shards that it asks for are cut and put together.

    Args:
        module: a program with layouts, not expanded.
        mesh: the mesh, of one device where the program has no `dtensor.manual`.
    """
    for op in ops_of(module.body):
        if op.name == MESH_OP:
            op.erase()
    build.mesh(mesh, ip=ir.InsertionPoint.at_block_begin(module.body))
    main = main_function(module)
    for op, name, _ in list(walk(main)):
        if name == RELAYOUT:
            replace_op(op, op.operands)
            continue
        for attribute in (OPERANDS, ALGORITHM, RESULTS):
            if attribute in op.attributes:
                del op.attributes[attribute]
        if name not in RETURNS and len(op.results):
            op.attributes[RESULTS] = layouts_array_attr(_whole(op.results, mesh))
        if name == MANUAL:
            _cut_around(op, read_meshes(module))
    block = main.regions[0].blocks[0]
    set_boundary_layouts(main, ARG_ATTRS, _whole(block.arguments, mesh))
    set_boundary_layouts(main, RES_ATTRS, _whole(terminator(block).operands, mesh))


def _cut_around(op: ir.Operation, meshes: dict[str, Mesh]) -> None:
    """Relayouts to what a region asks for, and from what it gives."""
    free = free_axes(op)
    sides = [layouts_of_array(op.attributes[side], meshes) for side in (IN_LAYOUTS, OUT_LAYOUTS)]
    given, made = [[x and manual_part(x, free) for x in side] for side in sides]
    for k, layout in enumerate(given):
        if layout and layout.axes:
            op.operands[k] = build.relayout(op.operands[k], layout, ip=ir.InsertionPoint(op))
    op.attributes[RESULTS] = layouts_array_attr(tuple(made))
    for result, layout in zip(op.results, made, strict=True):
        if layout and layout.axes:
            whole = Layout.replicated(layout.mesh, len(layout.dims))
            after = build.relayout(result, whole, ip=ir.InsertionPoint.after(op))
            maker = maker_of(after)
            assert maker is not None
            result.replace_all_uses_except(after, maker)


def _whole(values: Sequence[Value], mesh: Mesh) -> tuple[Layout, ...]:
    return tuple([Layout.replicated(mesh, _rank(value.type)) for value in values])


def _rank(type_: ir.Type) -> int:
    try:
        return int(ir.RankedTensorType(type_).rank)
    except ValueError:
        return 0
