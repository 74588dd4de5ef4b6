"""Builders of operations that are made in several places: each computes its result type.

They insert at `ip`, or at the current insertion point, and take `loc`, or the current location.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from dtensor.dialect import names
from dtensor.dialect.attributes import index_attr, layout_attr, layouts_array_attr, mesh_attr
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import manual_part
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir, ops_of

Value: TypeAlias = "ir.Value[Any]"


def _create(
    name: str,
    operands: Sequence[Value],
    results: Sequence[ir.Type],
    attributes: dict[str, ir.Attribute],
    loc: ir.Location | None,
    ip: ir.InsertionPoint | None,
) -> ir.Operation:
    return ir.Operation.create(
        name, results=results, operands=operands, attributes=attributes, loc=loc, ip=ip
    )


def _only(op: ir.Operation) -> Value:
    result: Value = op.results[0]
    return result


def mesh(
    mesh: Mesh, loc: ir.Location | None = None, ip: ir.InsertionPoint | None = None
) -> ir.Operation:
    """A mesh symbol; `ip` must be at the top of a module."""
    attributes = {
        names.SYM_NAME: ir.StringAttr.get(mesh.symbol),
        names.MESH_ATTR: mesh_attr(mesh),
    }
    return _create(names.MESH_OP, [], [], attributes, loc, ip)


def declare_mesh(given: Mesh, module: ir.Module) -> None:
    """Give a module that declares no mesh this one, so that its layouts can refer to it."""
    if not any(op.name in (names.MESH_OP, "sdy.mesh") for op in ops_of(module.body)):
        start = ir.InsertionPoint.at_block_begin(module.body)
        mesh(given, module.operation.location, start)


def relayout(
    x: Value,
    layout: Layout,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> Value:
    """`x`, laid out as `layout`."""
    attributes = {names.LAYOUT_ATTR: layout_attr(layout)}
    return _only(_create(names.RELAYOUT, [x], [x.type], attributes, loc, ip))


def alike(
    values: Sequence[Value],
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> list[Value]:
    """The same values, which will have one layout."""
    types = [value.type for value in values]
    return list(_create(names.ALIKE, values, types, {}, loc, ip).results)


def propagation_barrier(
    x: Value,
    allowed_direction: str,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> Value:
    """`x`, whose layout passes in one direction alone, or in `"none"`."""
    direction = ir.StringAttr.get(allowed_direction)
    attributes: dict[str, ir.Attribute] = {names.ALLOWED_DIRECTION: direction}
    return _only(_create(names.PROPAGATION_BARRIER, [x], [x.type], attributes, loc, ip))


def manual(
    values: Sequence[Value],
    layouts: Sequence[Layout | None],
    results: Sequence[ir.Type],
    result_layouts: Sequence[Layout | None],
    free: Sequence[str] = (),
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Operation:
    """A region over the shards of `values`; its block, still empty, has their local types.

    Args:
        values: what it works on.
        layouts: how they are laid out; None for tokens.
        results: global types of what it gives.
        result_layouts: how that is laid out.
        free: the mesh axes that are left to the planner inside.
        loc: where the program says so.
        ip: where to put it.
    """
    attributes = {
        names.IN_LAYOUTS: layouts_array_attr(tuple(layouts)),
        names.OUT_LAYOUTS: layouts_array_attr(tuple(result_layouts)),
    }
    with loc or ir.Location.unknown():
        attributes[names.FREE] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in free])
        op = ir.Operation.create(
            names.MANUAL, results, list(values), attributes, regions=1, loc=loc, ip=ip
        )
        types = [
            value.type if layout is None else _shard_type(value.type, manual_part(layout, free))
            for value, layout in zip(values, layouts, strict=True)
        ]
        op.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))
    return op


def _shard_type(type_: ir.Type, layout: Layout) -> ir.Type:
    whole = ir.RankedTensorType(type_)
    return ir.RankedTensorType.get(layout.local_shape(whole.shape), whole.element_type)


def splice(
    operands: Sequence[Value],
    dim: int,
    stretches: Sequence[tuple[int, int, int]],
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> Value:
    """Stretches `(operand, start, count)` one after another along `dim`.

    Operand 0 is no scalar.
    """
    old = ir.RankedTensorType(operands[0].type)
    shape = list(old.shape)
    shape[dim] = sum(count for _, _, count in stretches)
    columns = list(zip(*stretches, strict=True)) or [(), (), ()]
    attributes: dict[str, ir.Attribute] = {names.DIM: index_attr(dim)}
    for name, column in zip((names.SOURCES, names.STARTS, names.COUNTS), columns, strict=True):
        attributes[name] = ir.DenseI64ArrayAttr.get(list(column))
    result = ir.RankedTensorType.get(shape, old.element_type, loc=loc)
    return _only(_create(names.SPLICE, operands, [result], attributes, loc, ip))


def search(
    table: Value,
    queries: Sequence[Value],
    count: int,
    element: ir.Type,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Operation:
    """A search whose region has its arguments, and nothing that compares them yet."""
    result = ir.RankedTensorType.get(ir.ShapedType(queries[0].type).shape, element, loc=loc)
    op = ir.Operation.create(
        names.SEARCH,
        results=[result],
        operands=[table, *queries],
        attributes={names.COUNT: index_attr(count)},
        regions=1,
        loc=loc,
        ip=ip,
    )
    elements = [ir.ShapedType(value.type).element_type for value in (*queries, table)]
    scalars = [ir.RankedTensorType.get([], each, loc=loc) for each in elements]
    op.regions[0].blocks.append(*scalars, arg_locs=[op.location] * len(scalars))
    return op


def ranked(
    value: Value,
    places: Value,
    dim: int,
    index: ir.Type | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Operation:
    """The elements at places of an order, whose region has its arguments alone.

    With a type of integers also where they stand.
    """
    old = ir.RankedTensorType(value.type)
    shape = list(old.shape)
    shape[dim] = ir.RankedTensorType(places.type).shape[0]
    elements = [old.element_type, *([] if index is None else [index])]
    op = ir.Operation.create(
        names.RANKED,
        results=[ir.RankedTensorType.get(shape, element, loc=loc) for element in elements],
        operands=[value, places],
        attributes={names.DIM: index_attr(dim)},
        regions=1,
        loc=loc,
        ip=ip,
    )
    scalar = ir.RankedTensorType.get([], old.element_type, loc=loc)
    op.regions[0].blocks.append(scalar, scalar, arg_locs=[op.location] * 2)
    return op


def qr(
    matrix: Value,
    factor: ir.DictAttr,
    product: ir.DictAttr,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Operation:
    """Q and R of tall matrices, `[..., rows, columns]`, by calls of these attributes."""
    given = ir.RankedTensorType(matrix.type)
    *batch, _, columns = given.shape
    square = ir.RankedTensorType.get([*batch, columns, columns], given.element_type, loc=loc)
    attributes: dict[str, ir.Attribute] = {names.FACTOR: factor, names.PRODUCT: product}
    return _create(names.QR, [matrix], [given, square], attributes, loc, ip)


def fft(
    rows: Value,
    result: ir.Type,
    fft_type: ir.Attribute,
    fft_length: ir.Attribute,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Operation:
    """The Fourier transforms of rows that may be longer than they are in truth."""
    attributes = {names.FFT_TYPE: fft_type, names.FFT_LENGTH: fft_length}
    return _create(names.FFT, [rows], [result], attributes, loc, ip)


def gather_dot(
    operands: Sequence[Value],
    result: ir.Type,
    attributes: dict[str, ir.Attribute],
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Operation:
    """A product with what a gather of operands 0 and 1 gives; its other factor is operand 2."""
    return _create(names.GATHER_DOT, operands, [result], attributes, loc, ip)


def scan(
    operands: Sequence[Value],
    dim: int,
    is_reverse: bool = False,
    rows: Sequence[ir.Type] | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ir.Operation:
    """A scan whose region has its arguments, and nothing that combines them yet.

    Args:
        operands: what is scanned.
        dim: the dimension.
        is_reverse: whether it begins with the last.
        rows: per operand the type of what the region combines; None for scalars.
        loc: where it comes from.
        ip: where it goes.
    """
    attributes = {names.DIM: index_attr(dim), names.REVERSE: index_attr(int(is_reverse))}
    op = ir.Operation.create(
        names.SCAN,
        results=[value.type for value in operands],
        operands=list(operands),
        attributes=attributes,
        regions=1,
        loc=loc,
        ip=ip,
    )
    elements = [ir.ShapedType(value.type).element_type for value in operands] * 2
    scalars = [ir.RankedTensorType.get([], each, loc=loc) for each in elements]
    types = scalars if rows is None else [*rows, *rows]
    op.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))
    return op
