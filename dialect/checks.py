"""Checks of the dialect's operations.

A check is a plain function of what an operation says (`Facts`); it yields one sentence for each
thing that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dtensor.dialect import names
from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir, stablehlo, terminator


@dataclass(frozen=True, slots=True)
class Tensor:
    """Type of a value: its shape in elements, and its element type."""

    shape: tuple[int, ...]
    element: ir.Type

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), str(self.element)])}>"


@dataclass(frozen=True)
class Facts:
    """What one operation says, read from MLIR: tensors and attributes, already well formed."""

    op: ir.Operation
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    attributes: dict[str, Any]

    def axes(self, name: str = names.AXES) -> tuple[AxisRef, ...]:
        """The axes in attribute `name`."""
        found: tuple[AxisRef, ...] = self.attributes[name]
        return found

    def number(self, name: str) -> int:
        """The integer in attribute `name`."""
        return int(self.attributes[name])

    def split(self, name: str = names.AXES) -> int:
        """How many devices the axes in attribute `name` tell apart."""
        return devices_along(self.axes(name))


Check = Callable[[Facts], Iterator[str]]


# Sentences that several checks share.


def _needs_dim(facts: Facts, name: str) -> Iterator[str]:
    dim, rank = facts.number(name), len(facts.operands[0].shape)
    if rank == 0:
        yield f"{name} = {dim} is no dimension of a scalar; give a tensor with dimensions"
    elif not 0 <= dim < rank:
        yield f"{name} = {dim} is no dimension of a tensor of rank {rank}; give 0 to {rank - 1}"


def _needs_result(facts: Facts, shape: tuple[int, ...], why: str) -> Iterator[str]:
    wanted = Tensor(shape, facts.operands[0].element)
    found = facts.results[0]
    if found.shape != shape or found.element != wanted.element:
        yield f"result is {found}, but {why} gives {wanted}; change the result type"


def _needs_division(facts: Facts, dim: int) -> Iterator[str]:
    size, split = facts.operands[0].shape[dim], facts.split()
    if size % split:
        names_ = [axis.name for axis in facts.axes()]
        yield (
            f"dimension {dim} has {size} elements, not divisible by the {split} devices of axes "
            f"{names_}; pad it to {-(-size // split) * split}, or use other axes"
        )


def _needs_return(facts: Facts, ranks: Sequence[int], elements: Sequence[str]) -> Iterator[str]:
    """The region ends by returning tensors of such ranks and elements."""
    blocks = facts.op.regions[0].blocks
    last = terminator(blocks[0]) if blocks and len(blocks[0].operations) else None
    is_return = last is not None and last.name == "stablehlo.return"
    given = [ir.ShapedType(v.type) for v in last.operands] if last is not None and is_return else []
    found = [(type_.rank, str(type_.element_type)) for type_ in given]
    if not is_return or found != list(zip(ranks, elements, strict=True)):
        what = [str(type_) for type_ in given] if is_return else "nothing"
        wanted = ", ".join(
            f"{element} of rank {rank}" for rank, element in zip(ranks, elements, strict=True)
        )
        yield f"the region returns {what}; end it by a stablehlo.return of {wanted}"


def _needs_pairs(facts: Facts) -> Iterator[str]:
    if len(facts.operands) != len(facts.results):
        yield (
            f"has {len(facts.operands)} operands and {len(facts.results)} results; "
            "give one result for each operand"
        )


def _each(facts: Facts, check: Check, moves: bool = True) -> Iterator[str]:
    """What is wrong of any operand and its result, which go in one message with the others.

    What is only moved may be of several types, if their elements are as many whole bytes.
    """
    yield from (problems := list(_needs_pairs(facts)))
    if problems:
        return
    element = facts.operands[0].element
    for index, (operand, result) in enumerate(zip(facts.operands, facts.results, strict=True)):
        where = f"operand {index}: " if len(facts.operands) > 1 else ""
        if operand.element != element and not (moves and _are_alike(operand.element, element)):
            yield f"{where}is {operand}, but operand 0 is of {element}; give it an operation alone"
        for problem in check(replace(facts, operands=(operand,), results=(result,))):
            yield where + problem


def _are_alike(one: ir.Type, other: ir.Type) -> bool:
    widths = [t.width for t in (one, other) if isinstance(t, ir.IntegerType | ir.FloatType)]
    return len(widths) == 2 and widths[0] == widths[1] >= 8


def _scaled(shape: tuple[int, ...], dim: int, by: int) -> tuple[int, ...]:
    return (*shape[:dim], shape[dim] * by, *shape[dim + 1 :])


def _divided(shape: tuple[int, ...], dim: int, by: int) -> tuple[int, ...]:
    return (*shape[:dim], shape[dim] // by, *shape[dim + 1 :])


# Checks, one per operation.


def mesh(facts: Facts) -> Iterator[str]:
    """A mesh stands at the top."""
    parent = facts.op.parent
    if parent is None or parent.operation.name != names.MODULE:
        yield "a mesh must stand at the top of the module; move it out of the function"


def relayout(facts: Facts) -> Iterator[str]:
    """A layout fits the tensor."""
    layout: Layout = facts.attributes[names.LAYOUT_ATTR]
    problem = layout.problem(facts.operands[0].shape, uneven=True)
    if problem is not None:
        yield problem
    yield from _needs_result(facts, facts.operands[0].shape, "relayout (same global type)")


def alike(facts: Facts) -> Iterator[str]:
    """Operands of one shape; results like them."""
    shape = facts.operands[0].shape
    for k, operand in enumerate(facts.operands):
        if operand.shape != shape:
            yield (
                f"operand {k} is {operand}, operand 0 is {facts.operands[0]}; "
                "only values of one shape can have one layout: take it out"
            )
    if facts.results != facts.operands:
        yield "results differ from operands; give each operand a result of its type"


def manual(facts: Facts) -> Iterator[str]:
    """Each operand and result has a layout, or `unit`."""
    for name, values in (
        (names.IN_LAYOUTS, facts.op.operands),
        (names.OUT_LAYOUTS, facts.op.results),
    ):
        layouts = facts.attributes[name]
        if len(layouts) != len(values):
            yield f"has {len(layouts)} {name} for {len(values)} values; give one for each"
            continue
        for k, (layout, value) in enumerate(zip(layouts, values, strict=True)):
            is_tensor = isinstance(value.type, ir.RankedTensorType)
            if (layout is not None) != is_tensor:
                wanted = "a layout" if is_tensor else "unit"
                yield f"{name} {k} is of {value.type}; give it {wanted}"
            elif layout is not None:
                problem = layout.problem(ir.RankedTensorType(value.type).shape)
                if problem is not None:
                    yield f"{name} {k}: {problem}"


def all_gather(facts: Facts) -> Iterator[str]:
    """The gathered dimension of each operand grows."""
    yield from _each(facts, _gather)


def _gather(facts: Facts) -> Iterator[str]:
    yield from (problems := list(_needs_dim(facts, names.DIM)))
    if not problems:
        shape = _scaled(facts.operands[0].shape, facts.number(names.DIM), facts.split())
        yield from _needs_result(facts, shape, f"gathering from {facts.split()} devices")


def slice(facts: Facts) -> Iterator[str]:
    """The sliced dimension divides."""
    problems = list(_needs_dim(facts, names.DIM))
    dim = facts.number(names.DIM)
    if not problems:
        problems = list(_needs_division(facts, dim))
    yield from problems
    if not problems:
        shape = _divided(facts.operands[0].shape, dim, facts.split())
        yield from _needs_result(facts, shape, f"slicing among {facts.split()} devices")


def reduce_scatter(facts: Facts) -> Iterator[str]:
    """The scattered dimension of each operand divides."""
    yield from _each(facts, slice, moves=False)


def all_reduce(facts: Facts) -> Iterator[str]:
    """Results are like operands."""
    yield from (problems := list(_needs_pairs(facts)))
    if problems:
        return
    for index, (operand, result) in enumerate(zip(facts.operands, facts.results, strict=True)):
        if operand != result:
            yield f"result {index} is {result}, but operand {index} is {operand}; make them equal"


def all_to_all(facts: Facts) -> Iterator[str]:
    """One dimension of each operand divides, another grows."""
    yield from _each(facts, _exchange)


def _exchange(facts: Facts) -> Iterator[str]:
    problems = [*_needs_dim(facts, names.SPLIT_DIM), *_needs_dim(facts, names.CONCAT_DIM)]
    split_dim, concat_dim = facts.number(names.SPLIT_DIM), facts.number(names.CONCAT_DIM)
    if not problems and split_dim == concat_dim:
        problems = [f"split_dim and concat_dim are both {split_dim}; they must differ"]
    if not problems:
        problems = list(_needs_division(facts, split_dim))
    yield from problems
    if not problems:
        shape = _divided(facts.operands[0].shape, split_dim, facts.split())
        shape = _scaled(shape, concat_dim, facts.split())
        yield from _needs_result(facts, shape, f"exchanging among {facts.split()} devices")


def permute(facts: Facts) -> Iterator[str]:
    """Shards go to as many places as they come from."""
    yield from _each(facts, _permute)


def _permute(facts: Facts) -> Iterator[str]:
    source, target = facts.axes(names.FROM), facts.axes(names.TO)
    before, after = facts.split(names.FROM), facts.split(names.TO)
    if before != after:
        yield (f"'from' tells {before} devices apart but 'to' {after}; give axes of equal product")
    elif _covered(source) != _covered(target) and any(
        a.overlaps(b) for a in source for b in target
    ):
        yield (
            "'from' and 'to' share some axes but not all; "
            "give the same axes in another order, or disjoint ones"
        )
    yield from _needs_result(facts, facts.operands[0].shape, "a permutation")


def _covered(axes: tuple[AxisRef, ...]) -> set[tuple[str, int]]:
    """The axes down to prime parts, so that `"x"` covers what `"x":(1)2, "x":(2)2` does."""
    parts = set()
    for axis in axes:
        pre, rest, factor = axis.pre, axis.size, 2
        while rest > 1:
            while rest % factor:
                factor += 1
            parts.add((axis.name, pre))
            pre, rest = pre * factor, rest // factor
    return parts


def halo(facts: Facts) -> Iterator[str]:
    """Halos are no wider than a shard."""
    problems = list(_needs_dim(facts, names.DIM))
    low, high = facts.number(names.LOW), facts.number(names.HIGH)
    if not problems:
        size = facts.operands[0].shape[facts.number(names.DIM)]
        problems = [
            f"{name} = {width} is not between 0 and the {size} elements of a shard; "
            "only the direct neighbours' elements can be had: split over fewer devices"
            for name, width in ((names.LOW, low), (names.HIGH, high))
            if not 0 <= width <= size
        ]
    yield from problems
    if not problems:
        dim = facts.number(names.DIM)
        shape = list(facts.operands[0].shape)
        shape[dim] += low + high
        yield from _needs_result(facts, tuple(shape), f"a halo of {low} and {high} elements")


def shard_permute(facts: Facts) -> Iterator[str]:
    """Every shard comes from a shard, or from none."""
    sources, devices = facts.attributes[names.SOURCES], facts.split()
    if len(sources) != devices:
        yield f"{len(sources)} sources for {devices} devices; name one for each"
    elif not all(-1 <= source < devices for source in sources):
        yield f"sources are {list(sources)}; give devices from 0 to {devices - 1}, or -1 for zeros"
    elif len(named := [source for source in sources if source >= 0]) != len(set(named)):
        yield f"sources are {list(sources)}; each device can send to one other only"
    readers = facts.attributes.get(names.READERS, ())
    if not all(0 <= reader < devices for reader in readers):
        yield f"readers are {list(readers)}; give devices from 0 to {devices - 1}"
    yield from _needs_result(facts, facts.operands[0].shape, "a permutation")


def splice(facts: Facts) -> Iterator[str]:
    """Stretches lie within their operands and fill the result."""
    yield from (problems := list(_needs_dim(facts, names.DIM)))
    columns = [facts.attributes[name] for name in (names.SOURCES, names.STARTS, names.COUNTS)]
    if len({len(column) for column in columns}) != 1:
        yield "sources, starts and counts differ in length; give one of each per stretch"
    elif not problems:
        rows = list(zip(*columns, strict=True))
        yield from _stretch_problems(facts, facts.number(names.DIM), rows)


def _stretch_problems(facts: Facts, dim: int, rows: list[tuple[int, int, int]]) -> Iterator[str]:
    for source, start, count in rows:
        if not 0 <= source < len(facts.operands):
            yield f"there is no operand {source}; there are {len(facts.operands)}"
            return
        shape = facts.operands[source].shape
        if shape and not 0 <= start <= start + count <= shape[dim]:
            stretch = f"elements {start} to {start + count}"
            yield f"{stretch} are beyond the {shape[dim]} of operand {source}"
            return
    shape = facts.operands[0].shape
    total = sum(count for _, _, count in rows)
    wanted = (*shape[:dim], total, *shape[dim + 1 :])
    yield from _needs_result(facts, wanted, "putting these stretches together")


def search(facts: Facts) -> Iterator[str]:
    """A table of one dimension, queries like the result, a region that compares their scalars."""
    table, queries, result = facts.operands[0], facts.operands[1:], facts.results[0]
    if len(table.shape) != 1 or not 0 < facts.number(names.COUNT) <= table.shape[0]:
        count = facts.number(names.COUNT)
        yield f"searches {count} elements of {table}; give a table of one dimension that has them"
    if not queries or any(query.shape != result.shape for query in queries):
        yield f"result is {result}; give it the shape of every query, and one query at least"
    if not isinstance(result.element, ir.IntegerType):
        yield f"result is {result}, but places are integers; change the result type"
    wanted = [str(tensor.element) for tensor in (*queries, table)]
    region = facts.op.regions[0]
    found = [str(value.type) for value in region.blocks[0].arguments] if region.blocks else []
    if found != [f"tensor<{element}>" for element in wanted]:
        yield f"the region takes {found}; give it a scalar of each query, then one of the table"
    yield from _needs_return(facts, [0], ["i1"])


def ranked(facts: Facts) -> Iterator[str]:
    """Places for all rows or for each, as many as in the result; a region that compares scalars."""
    yield from (problems := list(_needs_dim(facts, names.DIM)))
    given, places = facts.operands
    dim = 0 if problems else facts.number(names.DIM)
    each = (*given.shape[:dim], *given.shape[dim + 1 :])
    is_integer = isinstance(places.element, ir.IntegerType)
    if not is_integer or not places.shape or places.shape[1:] not in ((), each):
        yield (
            f"places are {places}; give integers of one dimension, or of {len(given.shape)}, the "
            f"places first and then the other dimensions of {given}"
        )
    elif not problems:
        shape = (*given.shape[:dim], places.shape[0], *given.shape[dim + 1 :])
        yield from _needs_result(facts, shape, "an element for each place")
        yield from _needs_index(facts, shape)
    region = facts.op.regions[0]
    found = [str(value.type) for value in region.blocks[0].arguments] if region.blocks else []
    if found != [f"tensor<{given.element}>"] * 2:
        yield f"the region takes {found}; give it two scalars of operand 0"
    yield from _needs_return(facts, [0], ["i1"])


def _needs_index(facts: Facts, shape: tuple[int, ...]) -> Iterator[str]:
    """At most one result more, of integers."""
    if len(facts.results) > 2:
        yield f"gives {len(facts.results)} results; leave the elements, and where they stand"
    index = Tensor(shape, ir.IntegerType.get_signless(32))
    for found in facts.results[1:2]:
        if found.shape != shape or str(found.element) not in ("i32", "i64"):
            yield f"result 1 is {found}, which says where elements stand; make it {index}"


def qr(facts: Facts) -> Iterator[str]:
    """Matrices of more rows than columns, some like them, and some as wide and as high as that."""
    given = facts.operands[0]
    if len(given.shape) < 2 or given.shape[-2] < given.shape[-1]:
        yield f"operand is {given}; give a matrix of at least as many rows as columns"
        return
    square = (*given.shape[:-2], given.shape[-1], given.shape[-1])
    for found, shape in zip(facts.results, (given.shape, square), strict=True):
        wanted = Tensor(shape, given.element)
        if found != wanted:
            yield f"result is {found}, but the QR of {given} has {wanted}; change the result type"


def fft(facts: Facts) -> Iterator[str]:
    """One length; rows of as many elements as it reads, results of as many as it gives."""
    lengths, kind = facts.attributes[names.FFT_LENGTH], facts.attributes[names.FFT_TYPE]
    if len(lengths) != 1 or lengths[0] < 1:
        yield f"fft_length is {lengths}; give the length of the one dimension that is transformed"
        return
    (length,), (given, result) = lengths, (facts.operands[0], facts.results[0])
    half = length // 2 + 1
    reads, gives = half if kind == "IRFFT" else length, half if kind == "RFFT" else length
    for what, found, count in (("operand", given, reads), ("result", result, gives)):
        if not found.shape or found.shape[-1] < count:
            yield (
                f"{what} is {found}, but that of {kind} of length {length} has {count} elements "
                "in its last dimension; give it as many, or more"
            )
    if given.shape[:-1] != result.shape[:-1]:
        yield f"result is {result}, but rows of {given} are transformed; give it as many rows"


def gather_dot(facts: Facts) -> Iterator[str]:
    """What StableHLO says of the gather, and of the dot_general of what it gives."""
    numbers, sizes = facts.attributes[names.GATHER_NUMBERS], facts.attributes[names.SLICE_SIZES]
    numbers = stablehlo.GatherDimensionNumbers(numbers)
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    shape = [n for d, n in enumerate(facts.operands[1].shape) if d != numbers.index_vector_dim]
    for d, (size, window) in enumerate(zip(facts.operands[0].shape, sizes, strict=False)):
        if window not in (1, size):
            yield f"windows hold {window} of the {size} elements of dimension {d}; give one or all"
            return
    windows = iter([n for d, n in enumerate(sizes) if d not in gone])
    offsets = sorted(numbers.offset_dims)
    for d in offsets[: len(sizes) - len(gone)]:
        shape.insert(d, next(windows, 1))
    try:
        _as_two(facts, shape)
    except ir.MLIRError as failure:
        yield "; ".join(each.message for each in failure.error_diagnostics)


def _as_two(facts: Facts, shape: list[int]) -> None:
    """Verify the gather, which gives `shape`, and the dot_general, in a module of their own.

    Raises:
        ir.MLIRError: one of them is wrong.
    """
    loc, said = facts.op.location, facts.op.attributes
    alone = ir.Module.create(loc=loc)

    def made(name: str, values: list[Value], types: Sequence[ir.Type], *named: str) -> ir.Operation:
        attributes = {each: said[each] for each in named}
        at = ir.InsertionPoint(alone.body)
        return ir.Operation.create(name, list(types), values, attributes, loc=loc, ip=at)

    gathered = [ir.RankedTensorType.get(shape, facts.operands[k].element, loc=loc) for k in (0, 2)]
    given = [value.type for value in facts.op.operands]
    table, indices, other = made("builtin.unrealized_conversion_cast", [], given).results
    numbers = names.GATHER_NUMBERS, names.SLICE_SIZES
    rows = made("stablehlo.gather", [table, indices], gathered[:1], *numbers)
    rows.verify()
    same = made("stablehlo.convert", [rows.results[0]], gathered[1:])
    result = facts.op.results[0].type
    made("stablehlo.dot_general", [same.results[0], other], [result], names.DOT_NUMBERS).verify()


def scan(facts: Facts) -> Iterator[str]:
    """Operands as long along the dimension, results like them; a region of two of each."""
    yield from _needs_dim(facts, names.DIM)
    if facts.number(names.REVERSE) not in (0, 1):
        yield f"reverse is {facts.number(names.REVERSE)}; give 1 to begin with the last, or 0"
    dim, shapes = facts.number(names.DIM), {tensor.shape for tensor in facts.operands}
    region = facts.op.regions[0]
    arguments = region.blocks[0].arguments if region.blocks else ()
    given = [ir.ShapedType(value.type) for value in arguments]
    is_of_scalars = not any(type_.rank for type_ in given)
    if len(shapes if is_of_scalars else {shape[dim : dim + 1] for shape in shapes}) != 1:
        found = ", ".join(map(str, facts.operands))
        along = "" if is_of_scalars else f" along dimension {dim}"
        yield f"operands are {found}; give operands of one shape{along}"
    if facts.results != facts.operands:
        yield "results differ from operands; give each operand a result of its type"
    wanted = [(0 if is_of_scalars else len(t.shape), str(t.element)) for t in facts.operands] * 2
    if [(type_.rank, str(type_.element_type)) for type_ in given] != wanted:
        found_types = [str(type_) for type_ in given]
        what = "a scalar" if is_of_scalars else "rows"
        yield f"the region takes {found_types}; give it {what} of each operand, twice"
    half = wanted[: len(facts.operands)]
    yield from _needs_return(facts, [rank for rank, _ in half], [element for _, element in half])


def axis_index(facts: Facts) -> Iterator[str]:
    """A coordinate is a 32-bit integer."""
    found = facts.results[0]
    if found.shape or str(found.element) != "i32":
        yield f"result is {found}, but a device's coordinate is tensor<i32>; change the result type"
