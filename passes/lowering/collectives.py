"""How each dtensor operation is written in StableHLO."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dtensor.dialect import names
from dtensor.dialect.attributes import mesh_and_axes
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.builder import integer_attr, matrix_attr
from dtensor.passes.lowering.bitwise import all_reduce_bits, reduce_scatter_bits
from dtensor.passes.lowering.emitter import Emitter
from dtensor.passes.lowering.ordered import from_keys, is_ordered, to_keys
from dtensor.passes.ops.reduction import Reduction

Meshes = dict[str, Mesh]
Lowering = Callable[[ir.Operation, Emitter, Meshes], "list[ir.Value[Any]]"]


def _integer(op: ir.Operation, name: str) -> int:
    return int(ir.IntegerAttr(op.attributes[name]).value)


def _axes(
    op: ir.Operation, meshes: Meshes, name: str = names.AXES
) -> tuple[Mesh, tuple[AxisRef, ...], int]:
    """The mesh, the axes with more than one device, and how many devices they tell apart."""
    mesh, axes = mesh_and_axes(op.attributes[name], meshes)
    axes = tuple(axis for axis in axes if axis.size > 1)
    return mesh, axes, math.prod(axis.size for axis in axes)


def _reduction(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes[names.REDUCTION]).value)


def all_gather(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """One all_gather."""
    mesh, axes, parts = _axes(op, meshes)
    if parts == 1:
        return list(op.operands)
    attributes = {"all_gather_dim": integer_attr(_integer(op, names.DIM))}
    types = [result.type for result in op.results]
    name = "stablehlo.all_gather"
    return list(emitter.collective(name, op.operands, types, mesh, axes, attributes).results)


def all_slice(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """A dynamic_slice that starts at this device's coordinate."""
    mesh, axes, parts = _axes(op, meshes)
    if parts == 1:
        return list(op.operands)
    dim = _integer(op, names.DIM)
    type_ = op.results[0].type
    shape = emitter.read_type(type_)[0]
    start = emitter.coordinate(mesh, axes)
    if shape[dim] != 1:
        start = emitter.binary("multiply", start, emitter.number(shape[dim]))
    starts = [start if d == dim else emitter.number(0) for d in range(len(shape))]
    return [emitter.dynamic_slice(op.operands[0], starts, shape)]


def all_reduce(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """One all_reduce of all operands, or one each, side by side."""
    mesh, axes, parts = _axes(op, meshes)
    if parts == 1:
        return list(op.operands)
    name, kind = "stablehlo.all_reduce", _reduction(op)
    element = emitter.element_of(op.operands[0])
    if not Reduction.named(kind).crosses_devices(element):
        return [all_reduce_bits(v, mesh, axes, parts, kind, emitter) for v in op.operands]

    def reduce(values: Sequence[ir.Value[Any]]) -> list[ir.Value[Any]]:
        if emitter.is_variadic:
            types = [value.type for value in values]
            return list(emitter.collective(name, values, types, mesh, axes, {}, kind).results)
        return [
            emitter.collective(name, [v], [v.type], mesh, axes, {}, kind).results[0] for v in values
        ]

    if is_ordered(kind, element):
        keys = reduce([to_keys(value, kind, emitter) for value in op.operands])
        types = [result.type for result in op.results]
        return [from_keys(k, t, emitter) for k, t in zip(keys, types, strict=True)]
    return reduce(list(op.operands))


def reduce_scatter(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """One reduce_scatter."""
    mesh, axes, parts = _axes(op, meshes)
    if parts == 1:
        return list(op.operands)
    dim = _integer(op, names.DIM)
    attributes = {"scatter_dimension": integer_attr(dim)}
    value, type_ = op.operands[0], op.results[0].type
    shape, element = emitter.read_type(type_)
    name, kind = "stablehlo.reduce_scatter", _reduction(op)
    if not Reduction.named(kind).crosses_devices(element):
        return [reduce_scatter_bits(value, dim, mesh, axes, parts, kind, emitter)]
    if not is_ordered(kind, element):
        made = emitter.collective(name, [value], [type_], mesh, axes, attributes, kind)
        return list(made.results)
    keys = to_keys(value, kind, emitter)
    keys_type = emitter.tensor_type(shape, emitter.element_of(keys))
    made = emitter.collective(name, [keys], [keys_type], mesh, axes, attributes, kind)
    return [from_keys(made.results[0], type_, emitter)]


def all_to_all(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """One all_to_all."""
    mesh, axes, parts = _axes(op, meshes)
    if parts == 1:
        return list(op.operands)
    attributes = {
        "split_dimension": integer_attr(_integer(op, names.SPLIT_DIM)),
        "concat_dimension": integer_attr(_integer(op, names.CONCAT_DIM)),
        "split_count": integer_attr(parts),
    }
    types = [op.results[0].type]
    name = "stablehlo.all_to_all"
    return list(emitter.collective(name, op.operands, types, mesh, axes, attributes).results)


def collective_permute(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """One collective_permute that names every device as a target."""
    mesh, sources, _ = _axes(op, meshes, names.FROM)
    _, targets, _ = _axes(op, meshes, names.TO)
    pairs = permute_pairs(mesh, sources, targets)
    if all(source == target for source, target in pairs):
        return list(op.operands)
    return [_permute(op.operands[0], pairs, emitter)]


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
    to_position = {}
    for start in range(mesh.size):
        key = tuple(mesh.coordinate(start, axis) for axis in targets)
        rest = start - sum(
            c * mesh.position_stride(axis) for c, axis in zip(key, targets, strict=True)
        )
        to_position[_number(key, targets), rest] = start
    pairs = []
    for start in range(mesh.size):
        key = tuple(mesh.coordinate(start, axis) for axis in sources)
        rest = start - sum(
            c * mesh.position_stride(axis) for c, axis in zip(key, sources, strict=True)
        )
        pairs.append((start, to_position[_number(key, sources), rest]))
    return pairs


def _number(coordinates: tuple[int, ...], axes: tuple[AxisRef, ...]) -> int:
    number = 0
    for coordinate, axis in zip(coordinates, axes, strict=True):
        number = number * axis.size + coordinate
    return number


def _permute(value: ir.Value[Any], pairs: list[tuple[int, int]], emitter: Emitter) -> ir.Value[Any]:
    attributes = {
        "source_target_pairs": matrix_attr(pairs),
        "channel_handle": emitter.channel(),
    }
    return emitter.value("stablehlo.collective_permute", [value], value.type, attributes)


def halo_exchange(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """A permute from each direct neighbour, then a concatenation.

    A device that no pair names as a target receives zeros: the edges of the tensor.
    """
    mesh, axes, parts = _axes(op, meshes)
    dim, value = _integer(op, names.DIM), op.operands[0]
    low, high = _integer(op, names.LOW), _integer(op, names.HIGH)
    size = emitter.shape_of(value)[dim]
    pieces = [value]
    if low:
        pairs = _neighbours(mesh, axes, parts, 1)
        pieces.insert(0, _halo(value, dim, (size - low, size), pairs, emitter))
    if high:
        pairs = _neighbours(mesh, axes, parts, -1)
        pieces.append(_halo(value, dim, (0, high), pairs, emitter))
    return [emitter.joined(pieces, dim)]


def _neighbours(
    mesh: Mesh, axes: tuple[AxisRef, ...], parts: int, hop: int
) -> list[tuple[int, int]]:
    """Pairs of mesh positions: who sends `hop` devices further along `axes`, to whom."""
    return [
        (group[i], group[i + hop])
        for group in mesh.groups(axes)
        for i in range(parts)
        if 0 <= i + hop < parts
    ]


def _halo(
    value: ir.Value[Any],
    dim: int,
    limits: tuple[int, int],
    pairs: list[tuple[int, int]],
    emitter: Emitter,
) -> ir.Value[Any]:
    """Elements `limits` along `dim` of the sender's shard; zeros where nobody sends."""
    start, end = limits
    if not pairs:
        shape, element = emitter.read_type(value.type)
        sizes = (*shape[:dim], end - start, *shape[dim + 1 :])
        return emitter.identity("sum", emitter.tensor_type(sizes, element))
    return _permute(emitter.cut(value, dim, start, end - start), pairs, emitter)


def shard_permute(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """One collective_permute; a device that no pair names as a target receives zeros."""
    mesh, axes, _ = _axes(op, meshes)
    sources = list(ir.DenseI64ArrayAttr(op.attributes[names.SOURCES]))
    pairs = [
        (group[source], group[k])
        for group in mesh.groups(axes)
        for k, source in enumerate(sources)
        if source >= 0
    ]
    if all(source == target for source, target in pairs) and -1 not in sources:
        return list(op.operands)
    return [_permute(op.operands[0], pairs, emitter)]


def axis_index(op: ir.Operation, emitter: Emitter, meshes: Meshes) -> list[ir.Value[Any]]:
    """Arithmetic on partition_id."""
    mesh, axes, _ = _axes(op, meshes)
    return [emitter.coordinate(mesh, axes)]


LOWERINGS: dict[str, Lowering] = {
    names.ALL_GATHER: all_gather,
    names.ALL_SLICE: all_slice,
    names.ALL_REDUCE: all_reduce,
    names.REDUCE_SCATTER: reduce_scatter,
    names.ALL_TO_ALL: all_to_all,
    names.COLLECTIVE_PERMUTE: collective_permute,
    names.HALO_EXCHANGE: halo_exchange,
    names.SHARD_PERMUTE: shard_permute,
    names.AXIS_INDEX: axis_index,
}
