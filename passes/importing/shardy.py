"""Shardy's annotations (`sdy.*`) as dtensor's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dtensor.dialect import build
from dtensor.dialect.attributes import layout_attr
from dtensor.dialect.diagnostics import error
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.kinds import DIRECTIONS
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import LAYOUT
from dtensor.passes.functions import (
    SIDES,
    boundary_types,
    entries,
    set_entries,
    tensor_shape,
)
from dtensor.passes.importing.constraints import constrain, replace_by_relayout, tie
from dtensor.passes.importing.manual import MANUAL_COMPUTATION, import_manual_regions
from dtensor.passes.ledger import Ledger
from dtensor.passes.ops.attributes import CONSTANT
from dtensor.passes.program import Visit, walk

_MESH = re.compile(r"#sdy\.mesh<\[(.*?)\](?:, device_ids=\[([\d, ]*)\])?>", re.DOTALL)
_SHARDING = re.compile(
    r"#sdy\.sharding<(?:@([\w.\-]+|\"[^\"]*\")|(mesh<.*?>)), (\[.*?\])(.*)>\Z", re.DOTALL
)
_SHARDING_ATTR = "sdy.sharding"
# Operations whose result is their operand in another layout, and the attribute that names it.
# Shardy's collectives speak of global tensors, as its shardings do.
_CONVERSIONS: Final = {
    "sdy.sharding_constraint": "sharding",
    "sdy.reshard": "sharding",
    **{
        f"sdy.{name}": "out_sharding"
        for name in (
            "all_gather",
            "all_reduce",
            "all_slice",
            "all_to_all",
            "collective_permute",
            "reduce_scatter",
            "replicated_to_unreduced",
            "sharded_to_unreduced",
        )
    },
}
# Operations whose result is their operand, in a layout that may be written on them.
_EDGES: Final = {
    "sdy.data_flow_edge": "sharding",
    "sdy.func_data_flow_edge": "sharding",
}


def read_shardy_meshes(module: ir.Module) -> dict[str, Mesh]:
    """The module's `sdy.mesh` operations, by symbol."""
    found: dict[str, Mesh] = {}
    for view in module.body.operations:
        op = view.operation
        if op.name == "sdy.mesh":
            name = ir.StringAttr(op.attributes["sym_name"]).value
            found[name] = _mesh(str(op.attributes["mesh"]), "" if name == "mesh" else name)
    return found


def _mesh(text: str, name: str) -> Mesh:
    match = _MESH.match(text)
    if match is None:  # of one device, or empty: it says of a value that it is whole
        return Mesh([], name=name)
    axes = [(axis, int(size)) for axis, size in re.findall(r'"([^"]+)"=(\d+)', match.group(1))]
    ids = [int(i) for i in match.group(2).split(",")] if axes and match.group(2) else None
    return Mesh(axes, ids, name=name)


def sharding_layout(text: str, meshes: dict[str, Mesh], target: Mesh, rank: int) -> Layout:
    """The layout that an `#sdy.sharding<...>` writes.

    Args:
        text: the attribute's written form.
        meshes: Shardy's meshes by symbol.
        target: the mesh of the module, with the same axes as the mesh of the sharding, unless that
            has none, as jax writes where it says of random keys that a key is whole.
        rank: number of dimensions of the value.

    Raises:
        LayoutError: another mesh, or a form that has no counterpart.
    """
    match = _SHARDING.match(text)
    if match is None:
        raise LayoutError(f"sharding {text} is not of the form #sdy.sharding<@mesh, [...]>")
    name, inline, dims, rest = match.groups()
    name = (name or "").strip('"')
    if inline is None and name not in meshes:
        raise LayoutError(f"sharding names mesh @{name}, which the module does not define")
    mesh = meshes[name] if inline is None else _mesh(f"#sdy.{inline}", "")
    what = f"mesh @{name}" if inline is None else "the mesh"
    if not mesh.axes and dims == "[]":  # of one device: what it says of a value is that it is whole
        return Layout.replicated(target, rank)
    if mesh.axes and mesh.axes != target.axes:
        raise LayoutError(
            f"sharding is on {what} {mesh!r}, the module is compiled for {target!r}; use one mesh"
        )
    replicated = re.search(r"replicated=\{([^}]*)\}", rest)
    if replicated and replicated.group(1).strip():
        kept_out = "".join(f"!{axis.strip()}" for axis in replicated.group(1).split(","))
        dims = dims.replace("?", f"?{kept_out}")
    partial = ""
    unreduced = re.search(r"unreduced=\{([^}]*)\}", rest)
    if unreduced and unreduced.group(1).strip():
        partial = f", partial = {{sum: ({unreduced.group(1)})}}"
    return Layout.parse(f"#dtensor.layout<@{target.symbol}, {dims}{partial}>", target)


def import_shardy(
    module: ir.Module,
    functions: Sequence[ir.Operation],
    visits: Sequence[Sequence[Visit]],
    mesh: Mesh,
    ledger: Ledger,
) -> None:
    """Turn every Shardy annotation of the module into dtensor's; erase the meshes.

    A sharding on an operation is a constraint of its results. Values of one sharding group have one
    layout from the last member on. What an annotation says that has no counterpart is a warning.

    Args:
        module: the module.
        functions: its functions.
        visits: of each function, its operations, those in bodies of reduce and the like too.
        mesh: the module's mesh.
        ledger: for warnings.
    """
    reader = _Reader(read_shardy_meshes(module), mesh, ledger)
    for function, ops in zip(functions, visits, strict=True):
        for side in SIDES:
            reader.read_boundary(function, side)
        if any(name == MANUAL_COMPUTATION for _, name, _ in ops):
            import_manual_regions(function, mesh, reader.per_value)
            ops = list(walk(function, combiners=True))
        for op, name, _ in ops:
            reader.read_op(op, name)
        reader.tie_groups()
    for view in list(module.body.operations):
        if view.operation.name == "sdy.mesh":
            view.operation.erase()


class _Reader:
    """Rewrites the annotations of one module."""

    def __init__(self, meshes: dict[str, Mesh], mesh: Mesh, ledger: Ledger) -> None:
        self.meshes = meshes
        self.mesh = mesh
        self.ledger = ledger
        self.groups: dict[int, list[ir.Operation]] = {}

    def read_boundary(self, function: ir.Operation, side: str) -> None:
        """Shardings of arguments or results; a layout that stands there says more, and stays."""
        if side not in function.attributes:
            return
        attributes = entries(function, side)
        types = boundary_types(function, side)
        for entry, type_ in zip(attributes, types, strict=True):
            sharding = entry.pop(_SHARDING_ATTR, None)
            if sharding is not None and LAYOUT not in entry:
                rank = len(tensor_shape(type_) or ())
                entry[LAYOUT] = layout_attr(self.layout(function, str(sharding), rank))
        set_entries(function, side, attributes)

    def layout(self, op: ir.Operation, text: str, rank: int) -> Layout:
        """The layout of a sharding."""
        try:
            return sharding_layout(text, self.meshes, self.mesh, rank)
        except LayoutError as wrong:
            error(op, str(wrong))

    def per_value(self, op: ir.Operation, name: str, ranks: Sequence[int]) -> list[Layout]:
        """The layouts that an attribute writes, one per value."""
        texts = list(_per_value(str(op.attributes[name])))
        return [self.layout(op, text, rank) for text, rank in zip(texts, ranks, strict=True)]

    def read_op(self, op: ir.Operation, name: str) -> None:
        """Rewrite one operation."""
        if name.startswith("sdy."):
            self._read_own(op, name)
        elif _SHARDING_ATTR in op.attributes:
            text = str(op.attributes[_SHARDING_ATTR])
            del op.attributes[_SHARDING_ATTR]
            for value, sharding in zip(op.results, _per_value(text), strict=False):
                shape = tensor_shape(value.type)
                if shape is not None:
                    constrain(op, value, self.layout(op, sharding, len(shape)))

    def _read_own(self, op: ir.Operation, name: str) -> None:
        """An operation of Shardy's dialect."""
        key = _CONVERSIONS.get(name)
        if key is not None:
            shape = tensor_shape(op.results[0].type) or ()
            replace_by_relayout(op, self.layout(op, str(op.attributes[key]), len(shape)))
        elif name in _EDGES:
            self._read_edge(op, name)
        elif name == "sdy.propagation_barrier":
            self._read_barrier(op)
        elif name == "sdy.constant":
            self._read_constant(op)
        elif name == "sdy.sharding_group":
            number = ir.IntegerAttr(op.attributes["group_id"]).value
            self.groups.setdefault(number, []).append(op)
        else:
            error(op, f"{name} has no counterpart in dtensor; remove it")

    def _read_edge(self, op: ir.Operation, name: str) -> None:
        if _EDGES[name] in op.attributes:
            shape = tensor_shape(op.results[0].type) or ()
            replace_by_relayout(op, self.layout(op, str(op.attributes[_EDGES[name]]), len(shape)))
            return
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()

    def _read_barrier(self, op: ir.Operation) -> None:
        direction = DIRECTIONS[ir.IntegerAttr(op.attributes["allowed_direction"]).value]
        new = build.propagation_barrier(
            op.operands[0], direction, op.location, ir.InsertionPoint(op)
        )
        op.results[0].replace_all_uses_with(new)
        if _SHARDING_ATTR in op.attributes:
            barrier = ir.OpResult(new).owner.operation
            barrier.attributes[_SHARDING_ATTR] = op.attributes[_SHARDING_ATTR]
            self.read_op(barrier, barrier.name)
        op.erase()

    def _read_constant(self, op: ir.Operation) -> None:
        new = ir.Operation.create(
            CONSTANT,
            results=[op.results[0].type],
            attributes={
                n: op.attributes[n] for n in ("value", _SHARDING_ATTR) if n in op.attributes
            },
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        op.results[0].replace_all_uses_with(new.results[0])
        op.erase()
        self.read_op(new, CONSTANT)

    def tie_groups(self) -> None:
        """One `dtensor.alike` per sharding group, behind its last member."""
        for number, members in self.groups.items():
            values = list(dict.fromkeys(member.operands[0] for member in members))
            block = members[-1].block
            if any(member.block != block for member in members):
                error(
                    members[-1],
                    f"sharding group {number} has members in several regions; constrain them "
                    "to one layout instead",
                )
            if len(values) > 1:
                tie(values, members[-1])
            for member in members:
                member.erase()
        self.groups.clear()


def _per_value(text: str) -> Iterator[str]:
    """The shardings of an operation's results: of `#sdy.sharding_per_value<[<...>, <...>]>`."""
    if not text.startswith("#sdy.sharding_per_value<"):
        yield text
        return
    inner = text[text.index("[") + 1 : text.rindex("]")]
    depth = start = 0
    for at, character in enumerate(inner):
        if character == "<":
            start = at if depth == 0 else start
            depth += 1
        elif character == ">":
            depth -= 1
            if depth == 0:
                yield f"#sdy.sharding{inner[start : at + 1]}"
