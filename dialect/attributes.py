"""Meshes, layouts and axes as MLIR attributes, both ways.

MLIR carries them as opaque attributes: `#dtensor.layout<...>` is our text, uniqued by MLIR. Both
directions are remembered for the context last used, so that one look-up is one dictionary access.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dtensor.dialect import names
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.diagnostics import did_you_mean, error
from dtensor.dialect.errors import LayoutError, MeshError
from dtensor.dialect.layout import Layout
from dtensor.dialect.layout_text import layout_mesh_name, parse_layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir, ops_of

_AXES = re.compile(r'axes\s*<\s*@(?:([\w.\-]+)|"([^"]*)")\s*,\s*\[(.*)\]\s*>\s*\Z', re.DOTALL)
_AXIS = re.compile(r'\s*"([^"]*)"\s*(?::\s*\(\s*(\d{1,18})\s*\)\s*(\d{1,18})\s*)?\Z')
_AXES_FORM = '#dtensor.axes<@mesh, ["x", "y":(1)2]>'


@dataclass
class _Tables:
    """What was converted in one context."""

    context: ir.Context
    none: ir.Type
    i64: ir.Type
    layout_attrs: dict[Layout, ir.Attribute] = field(default_factory=dict)
    layouts: dict[ir.Attribute, Layout] = field(default_factory=dict)
    axes_attrs: dict[tuple[Mesh, tuple[AxisRef, ...]], ir.Attribute] = field(default_factory=dict)
    axes: dict[ir.Attribute, tuple[Mesh, tuple[AxisRef, ...]]] = field(default_factory=dict)
    array_attrs: dict[tuple[Layout | None, ...], ir.Attribute] = field(default_factory=dict)
    arrays: dict[ir.Attribute, tuple[Layout | None, ...]] = field(default_factory=dict)
    index_attrs: dict[int, ir.Attribute] = field(default_factory=dict)


# One slot, not a dictionary by context: attributes keep their context alive, so remembering more
# than the last context would never free one.
_last: _Tables | None = None


def _tables() -> _Tables:
    global _last
    context = ir.Context.current
    tables = _last
    if tables is None or tables.context is not context:
        i64 = ir.IntegerType.get_signless(64)
        tables = _last = _Tables(context, ir.NoneType.get(), i64)
    return tables


def forget_context() -> None:
    """Drop everything remembered, so that the last context used can be freed."""
    global _last
    _last = None


def _opaque(text: str, tables: _Tables) -> ir.Attribute:
    body = text.removeprefix("#dtensor.").encode()
    return ir.OpaqueAttr.get(names.NAMESPACE, body, tables.none, tables.context)


def opaque_text(attribute: ir.Attribute, what: str) -> str:
    """The text inside a dtensor attribute, such as `layout<@mesh, [{"x"}]>`.

    Args:
        attribute: any attribute.
        what: the kind it should be, for the message: "layout", "mesh" or "axes".

    Raises:
        LayoutError: it is not a dtensor attribute of that kind.
    """
    if isinstance(attribute, ir.OpaqueAttr) and attribute.dialect_namespace == names.NAMESPACE:
        text = attribute.data.decode()
        if text.split("<", 1)[0].strip() == what:
            return text
    raise LayoutError(f"expected a #dtensor.{what}<...> attribute, found {attribute}")


# Layouts.


def layout_attr(layout: Layout) -> ir.Attribute:
    """`layout` as an attribute of the current context."""
    tables = _tables()
    found = tables.layout_attrs.get(layout)
    if found is None:
        found = tables.layout_attrs[layout] = _opaque(layout.asm(), tables)
        tables.layouts.setdefault(found, layout)  # what is written here is not parsed
    return found


def layout_of(attribute: ir.Attribute, meshes: dict[str, Mesh]) -> Layout:
    """The layout that `attribute` writes.

    Args:
        attribute: a `#dtensor.layout<...>`.
        meshes: the module's meshes by symbol, from `read_meshes`.

    Raises:
        LayoutError: malformed, or it names an unknown mesh or axis.
    """
    tables = _tables()
    found = tables.layouts.get(attribute)
    if found is None or meshes.get(found.mesh.symbol) is not found.mesh:
        text = opaque_text(attribute, "layout")
        found = parse_layout(text, _mesh_named(layout_mesh_name(text), meshes))
        if any(dim.is_match for dim in found.dims):
            raise LayoutError(
                f"{found.short()}: in a module no dimension is {{match}}; write {{?}}"
            )
        tables.layouts[attribute] = found
    return found


def layouts_array_attr(layouts: Sequence[Layout | None]) -> ir.Attribute:
    """`[#dtensor.layout<...>, ...]`; None, for values that are no tensors, is written `unit`."""
    tables = _tables()
    key = tuple(layouts)
    found = tables.array_attrs.get(key)
    if found is None:
        items = [
            ir.UnitAttr.get(tables.context) if item is None else layout_attr(item) for item in key
        ]
        found = tables.array_attrs[key] = ir.ArrayAttr.get(items, tables.context)
    return found


def layouts_of_array(attribute: ir.Attribute, meshes: dict[str, Mesh]) -> tuple[Layout | None, ...]:
    """The layouts in an array attribute; None where it says `unit`.

    Raises:
        LayoutError: it is no array, or an entry is no layout.
    """
    tables = _tables()
    found = tables.arrays.get(attribute)
    if found is None or not all(x is None or meshes.get(x.mesh.symbol) is x.mesh for x in found):
        if not isinstance(attribute, ir.ArrayAttr):
            raise LayoutError(f"expected a list of #dtensor.layout<...>, found {attribute}")
        found = tuple(
            None if isinstance(item, ir.UnitAttr) else layout_of(item, meshes) for item in attribute
        )
        tables.arrays[attribute] = found
    return found


# Axes.


def axes_attr(mesh: Mesh, axes: Sequence[AxisRef]) -> ir.Attribute:
    """Axes of `mesh`, major first, as an attribute: `#dtensor.axes<@mesh, ["x", "y":(1)2]>`."""
    tables = _tables()
    key = (mesh, tuple(axes))
    found = tables.axes_attrs.get(key)
    if found is None:
        parts = ", ".join(axis.text(mesh.axis_size(axis.name)) for axis in axes)
        text = f"axes<@{mesh.symbol}, [{parts}]>"
        found = tables.axes_attrs[key] = _opaque(text, tables)
    return found


def axes_of(attribute: ir.Attribute, meshes: dict[str, Mesh]) -> tuple[AxisRef, ...]:
    """The axes that `attribute` lists, major first.

    Raises:
        LayoutError: malformed, or it names an unknown mesh or axis, or an axis twice.
    """
    return mesh_and_axes(attribute, meshes)[1]


def mesh_and_axes(
    attribute: ir.Attribute, meshes: dict[str, Mesh]
) -> tuple[Mesh, tuple[AxisRef, ...]]:
    """The mesh and the axes of a `#dtensor.axes<...>`; errors as in `axes_of`."""
    tables = _tables()
    found = tables.axes.get(attribute)
    if found is None or meshes.get(found[0].symbol) is not found[0]:
        found = tables.axes[attribute] = _parse_axes(opaque_text(attribute, "axes"), meshes)
    return found


def _parse_axes(text: str, meshes: dict[str, Mesh]) -> tuple[Mesh, tuple[AxisRef, ...]]:
    match = _AXES.match(text)
    if match is None:
        raise LayoutError(f"malformed axes '#dtensor.{text}'; the form is {_AXES_FORM}")
    mesh = _mesh_named(match.group(1) or match.group(2), meshes)
    axes: list[AxisRef] = []
    for part in match.group(3).split(",") if match.group(3).strip() else ():
        axis = _parse_axis(part, mesh)
        if any(axis.overlaps(other) for other in axes):
            raise LayoutError(f'axes list uses axis "{axis.name}" twice; name it once')
        axes.append(axis)
    return mesh, tuple(axes)


def _parse_axis(part: str, mesh: Mesh) -> AxisRef:
    match = _AXIS.match(part)
    if match is None:
        raise LayoutError(f"malformed axis '{part.strip()}'; the form is {_AXES_FORM}")
    name, pre, size = match.groups()
    if name not in mesh:
        raise LayoutError(
            f'axes list names axis "{name}" that mesh @{mesh.symbol} does not have'
            + did_you_mean(name, mesh.axis_names)
        )
    if pre is None:
        return mesh.axis(name)
    whole = mesh.axis_size(name)
    if not (int(pre) and int(size)) or whole % (int(pre) * int(size)):
        raise LayoutError(
            f'"{name}":({pre}){size} is not a part of axis "{name}", which has {whole} devices'
        )
    return AxisRef(name, int(pre), int(size))


# Meshes.


def mesh_attr(mesh: Mesh) -> ir.Attribute:
    """`mesh` as an attribute of the current context; its name is not part of it."""
    return _opaque(mesh.asm(), _tables())


def mesh_of(attribute: ir.Attribute, name: str) -> Mesh:
    """The mesh that `attribute` writes, called `name`.

    Raises:
        MeshError: malformed.
    """
    try:
        text = opaque_text(attribute, "mesh")
    except LayoutError as wrong:
        raise MeshError(str(wrong)) from None
    return Mesh.parse(text, name)


def read_meshes(module: ir.Module) -> dict[str, Mesh]:
    """The module's `dtensor.mesh` operations, by symbol.

    Raises:
        LocatedError: one is malformed, or two have the same name.
    """
    meshes: dict[str, Mesh] = {}
    for op in ops_of(module.body):
        if op.name != names.MESH_OP:
            continue
        attributes = op.attributes
        for needed in (names.SYM_NAME, names.MESH_ATTR):
            if needed not in attributes:
                error(op, f"'{names.MESH_OP}' lacks attribute '{needed}'; add it")
        symbol = attributes[names.SYM_NAME]
        if not isinstance(symbol, ir.StringAttr):
            error(op, f"'{names.SYM_NAME}' must be a string, found {symbol}")
        if symbol.value in meshes:
            error(op, f"mesh @{symbol.value} is defined twice; rename one")
        try:
            meshes[symbol.value] = mesh_of(attributes[names.MESH_ATTR], symbol.value)
        except MeshError as wrong:
            error(op, str(wrong))
    return meshes


def _mesh_named(name: str, meshes: dict[str, Mesh]) -> Mesh:
    found = meshes.get(name)
    if found is None:
        known = [f"@{symbol}" for symbol in meshes]
        hint = did_you_mean(f"@{name}", known) or '; add a "dtensor.mesh" operation, or --mesh x=2'
        raise LayoutError(f"unknown mesh @{name}{hint}")
    return found


# Small attributes.


def index_attr(value: int) -> ir.Attribute:
    """`value : i64`, as the dialect's operations write dimensions and sizes."""
    tables = _tables()
    found = tables.index_attrs.get(value)
    if found is None:
        found = tables.index_attrs[value] = ir.IntegerAttr.get(tables.i64, value)
    return found


def number_attr(element: ir.Type, number: float) -> ir.Attribute:
    """A number of an element type; an integer of more than 64 bits wraps around.

    The bindings take integers as signed ones.
    """
    if not isinstance(element, ir.IntegerType):
        return ir.FloatAttr.get(element, float(number))
    half = 1 << 63
    return ir.IntegerAttr.get(element, (int(number) + half) % (2 * half) - half)


def entries_of(attribute: ir.Attribute) -> dict[str, ir.Attribute]:
    """The entries of `{name = attribute, ...}`."""
    entries = ir.DictAttr(attribute)
    named = [entries[i] for i in range(len(entries))]
    return {entry.name: entry.attr for entry in named}
