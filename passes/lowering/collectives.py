"""How each dtensor operation is written in StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtensor.dialect import names
from dtensor.dialect.attributes import index_attr, mesh_and_axes
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.lowering.emitter import Emitter, Over
from dtensor.passes.lowering.ordered import (
    all_reduce_bits,
    from_keys,
    picks_a_float,
    reduce_scatter_bits,
    to_keys,
)
from dtensor.passes.lowering.together import of_rows, rows_of
from dtensor.passes.ops.attributes import integer, integers
from dtensor.passes.ops.reduction import Reduction

Meshes = dict[str, Mesh]
Lowering = Callable[[ir.Operation, Emitter, Over], "list[Value]"]


def _over(op: ir.Operation, meshes: Meshes, name: str) -> Over:
    """The axes with more than one device."""
    mesh, axes = mesh_and_axes(op.attributes[name], meshes)
    return Over(mesh, tuple(axis for axis in axes if axis.size > 1))


def _reduction(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes[names.REDUCTION]).value)


def all_gather(op: ir.Operation, emitter: Emitter, over: Over) -> list[Value]:
    """One all_gather; several operands are one row of each device."""
    dim = integer(op.attributes[names.DIM])
    if len(op.operands) == 1:
        return [emitter.all_gather(op.operands[0], dim, op.results[0].type, over)]
    row = rows_of(op.operands, 0, 1, emitter)
    (_, length), element = emitter.read_type(row.type)
    rows = emitter.all_gather(row, 0, emitter.tensor_type([over.parts, length], element), over)
    return of_rows(rows, _types(op), dim, emitter)


def _types(op: ir.Operation) -> list[ir.Type]:
    return [result.type for result in op.results]


def all_slice(op: ir.Operation, emitter: Emitter, over: Over) -> list[Value]:
    """A dynamic_slice that starts at this device's coordinate."""
    dim, shape = integer(op.attributes[names.DIM]), emitter.shape_of(op.results[0])
    start = emitter.coordinate(over)
    if shape[dim] != 1:
        start = emitter.binary("multiply", start, emitter.number(shape[dim]))
    starts = [start if d == dim else emitter.number(0) for d in range(len(shape))]
    return [emitter.dynamic_slice(op.operands[0], starts, shape)]


def all_reduce(op: ir.Operation, emitter: Emitter, over: Over) -> list[Value]:
    """One all_reduce of all operands, or one each, side by side."""
    name, kind = "stablehlo.all_reduce", _reduction(op)
    element = emitter.element_of(op.operands[0])
    if not Reduction.named(kind).crosses_devices(element):
        return [all_reduce_bits(value, over, kind, emitter) for value in op.operands]

    def reduce(values: Sequence[Value]) -> list[Value]:
        together = [values] if emitter.is_variadic else [[value] for value in values]
        typed = [(each, [value.type for value in each]) for each in together]
        made = [emitter.collective(name, each, types, over, {}, kind) for each, types in typed]
        return [result for each in made for result in each]

    if picks_a_float(kind, element):
        keys = reduce([to_keys(value, kind, emitter) for value in op.operands])
        return [from_keys(k, t, emitter) for k, t in zip(keys, _types(op), strict=True)]
    return reduce(list(op.operands))


def reduce_scatter(op: ir.Operation, emitter: Emitter, over: Over) -> list[Value]:
    """One reduce_scatter; of several operands each device gets one row."""
    dim, kind = integer(op.attributes[names.DIM]), _reduction(op)
    if len(op.operands) == 1:
        return [_reduce_scatter(op.operands[0], dim, op.results[0].type, kind, over, emitter)]
    rows = rows_of(op.operands, dim, over.parts, emitter)
    (_, length), element = emitter.read_type(rows.type)
    row = _reduce_scatter(rows, 0, emitter.tensor_type([1, length], element), kind, over, emitter)
    return of_rows(row, _types(op), dim, emitter)


def _reduce_scatter(
    value: Value, dim: int, type_: ir.Type, kind: str, over: Over, emitter: Emitter
) -> Value:
    shape, element = emitter.read_type(type_)
    if not Reduction.named(kind).crosses_devices(element):
        return reduce_scatter_bits(value, dim, over, kind, emitter)

    def scatter(value: Value) -> Value:
        types = [emitter.tensor_type(shape, emitter.element_of(value))]
        attributes = {"scatter_dimension": index_attr(dim)}
        name = "stablehlo.reduce_scatter"
        return emitter.collective(name, [value], types, over, attributes, kind)[0]

    if picks_a_float(kind, element):
        return from_keys(scatter(to_keys(value, kind, emitter)), type_, emitter)
    return scatter(value)


def all_to_all(op: ir.Operation, emitter: Emitter, over: Over) -> list[Value]:
    """One all_to_all; of one dimension that was cut for it alone, along this; of several, of rows.

    XLA's CPU code then puts whole blocks side by side, and need not ask for every element of which
    block it is.
    """
    split, at = integer(op.attributes[names.SPLIT_DIM]), integer(op.attributes[names.CONCAT_DIM])
    if len(op.operands) > 1:
        rows = rows_of(op.operands, split, over.parts, emitter)
        moved = emitter.all_to_all(rows, (0, 0), rows.type, over)
        return of_rows(moved, _types(op), at, emitter)
    value, type_ = op.operands[0], op.results[0].type
    cut = made_by("stablehlo.reshape", value)
    if cut is not None and split == at + 1 and _is_cut(cut, at, over.parts):
        whole = cut.operands[0]
        moved = emitter.all_to_all(whole, (at, at), whole.type, over)
        return [emitter.reshape(moved, emitter.shape_of(op.results[0]))]
    return [emitter.all_to_all(value, (split, at), type_, over)]


def _is_cut(reshape: ir.Operation, dim: int, parts: int) -> bool:
    """Whether a dimension becomes three: one element, as many as there are parts, and the rest."""
    before = ir.RankedTensorType(reshape.operands[0].type).shape
    after = ir.RankedTensorType(reshape.results[0].type).shape
    head, cut, rest = after[:dim], after[dim : dim + 2], after[dim + 2 :]
    return cut == [1, parts] and rest != [] and before == [*head, parts * rest[0], *rest[1:]]


def collective_permute(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[Value]:
    """One collective_permute that names every device as a target; several operands are one row."""
    sources, targets = (_over(op, meshes, name) for name in (names.FROM, names.TO))
    pairs = permute_pairs(sources.mesh, sources.axes, targets.axes)
    if all(source == target for source, target in pairs):
        return list(op.operands)
    if len(op.operands) == 1:
        return [emitter.permute(op.operands[0], pairs)]
    row = emitter.permute(rows_of(op.operands, 0, 1, emitter), pairs)
    return of_rows(row, _types(op), 0, emitter)


def permute_pairs(
    mesh: Mesh, sources: tuple[AxisRef, ...], targets: tuple[AxisRef, ...]
) -> list[tuple[int, int]]:
    """From which mesh position each position receives, sources in order.

    The device at number k along `sources` sends to the one at number k along `targets`; axes in
    only one of the lists trade places, so that no two devices send to one.
    """
    sources, targets = (
        (*sources, *(axis for axis in targets if axis not in sources)),
        (*targets, *(axis for axis in sources if axis not in targets)),
    )

    def key(position: int, axes: tuple[AxisRef, ...]) -> tuple[int, int]:
        """The number of a device along the axes, and where it is but for those."""
        number, rest = 0, position
        for axis in axes:
            coordinate = mesh.coordinate(position, axis)
            number = number * axis.size + coordinate
            rest -= coordinate * mesh.position_stride(axis)
        return number, rest

    places = range(mesh.size)
    at = {key(place, targets): place for place in places}
    return [(place, at[key(place, sources)]) for place in places]


def halo_exchange(op: ir.Operation, emitter: Emitter, over: Over) -> list[Value]:
    """A permute from each direct neighbour, then a concatenation.

    A device that no pair names as a target receives zeros: the edges of the tensor.
    """
    dim, value = integer(op.attributes[names.DIM]), op.operands[0]
    low, high = integer(op.attributes[names.LOW]), integer(op.attributes[names.HIGH])
    size = emitter.shape_of(value)[dim]
    pieces = [value]
    if low:
        last = emitter.cut(value, dim, size - low, low)
        pieces.insert(0, emitter.permute(last, _neighbours(over, 1)))
    if high:
        first = emitter.cut(value, dim, 0, high)
        pieces.append(emitter.permute(first, _neighbours(over, -1)))
    return [emitter.joined(pieces, dim)]


def _neighbours(over: Over, hop: int) -> list[tuple[int, int]]:
    """Pairs of mesh positions: who sends `hop` devices further along `axes`, to whom."""
    return [
        (group[i], group[i + hop])
        for group in over.mesh.groups(over.axes)
        for i in range(over.parts)
        if 0 <= i + hop < over.parts
    ]


def shard_permute(op: ir.Operation, emitter: Emitter, over: Over) -> list[Value]:
    """One collective_permute; a device that no pair names as a target receives zeros."""
    sources = integers(op.attributes[names.SOURCES])
    pairs = [
        (group[source], group[k])
        for group in over.mesh.groups(over.axes)
        for k, source in enumerate(sources)
        if source >= 0
    ]
    if all(source == target for source, target in pairs) and -1 not in sources:
        return list(op.operands)
    return [emitter.permute(op.operands[0], pairs)]


def axis_index(op: ir.Operation, emitter: Emitter, over: Over) -> list[Value]:
    """Arithmetic on partition_id."""
    return [emitter.coordinate(over)]


LOWERINGS: dict[str, Lowering] = {
    names.ALL_GATHER: all_gather,
    names.ALL_SLICE: all_slice,
    names.ALL_REDUCE: all_reduce,
    names.REDUCE_SCATTER: reduce_scatter,
    names.ALL_TO_ALL: all_to_all,
    names.HALO_EXCHANGE: halo_exchange,
    names.SHARD_PERMUTE: shard_permute,
    names.AXIS_INDEX: axis_index,
}
# Over one device they do something too.
_ALONE = (names.HALO_EXCHANGE, names.SHARD_PERMUTE, names.AXIS_INDEX)


def lowered(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[Value] | None:
    """What stands for the results of a dtensor operation; None of one that cannot be lowered."""
    if op.name == names.COLLECTIVE_PERMUTE:
        return collective_permute(op, emitter, meshes)
    if op.name not in LOWERINGS:
        return None
    over = _over(op, meshes, names.AXES)
    if over.parts == 1 and op.name not in _ALONE:
        return list(op.operands)
    return LOWERINGS[op.name](op, emitter, over)
