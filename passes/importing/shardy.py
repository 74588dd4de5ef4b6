"""Shardy's annotations (`sdy.*`), and GSPMD's, as dtensor's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dtensor.dialect import build
from dtensor.dialect.attributes import layout_attr
from dtensor.dialect.diagnostics import error
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.kinds import DIRECTIONS
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, forget, ir, is_read, operation_of, ops_of, replace_op
from dtensor.dialect.names import ARG_ATTRS, LAYOUT
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.functions import SIDES, boundary_types, entries, set_entries, tensor_shape
from dtensor.passes.importing.constraints import (
    constrain,
    constrain_operand,
    replace_by_relayout,
    tie,
)
from dtensor.passes.importing.gspmd import (
    GSPMD_ATTR,
    gspmd_layout,
    is_gspmd_constraint,
    sharding_text,
    shardings_of,
)
from dtensor.passes.importing.manual import MANUAL_COMPUTATION, import_manual_regions
from dtensor.passes.importing.shardy_text import per_value, read_shardy_meshes, sharding_layout
from dtensor.passes.importing.unheeded import Unheeded, contradict
from dtensor.passes.ledger import Ledger
from dtensor.passes.ops.attributes import CONSTANT
from dtensor.passes.program import CUSTOM_CALL, Visit, dissolve, walk

_CARRIED = "mhlo.frontend_attributes"
_NAMED_COMPUTATION = "sdy.named_computation"
_SHARDING_ATTR = "sdy.sharding"
_CONSTRAINT: Final = "sdy.sharding_constraint"
# Operations whose result is their operand in another layout, and the attribute that names it.
# Shardy's collectives speak of global tensors, as its shardings do.
_CONVERSIONS: Final = {
    _CONSTRAINT: "sharding",
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
_EDGES: Final = ("sdy.data_flow_edge", "sdy.func_data_flow_edge")


def import_annotations(
    module: ir.Module,
    functions: Sequence[ir.Operation],
    visits: Sequence[Sequence[Visit]],
    mesh: Mesh,
    ledger: Ledger,
) -> None:
    """Turn every annotation of Shardy or GSPMD into dtensor's; erase the meshes.

    A sharding on an operation is a constraint of its results. Values of one sharding group have one
    layout from the last member on. What an annotation says that has no counterpart is an error, or
    where values are right all the same, a warning in the ledger.
    `visits` has the operations of each function, those in bodies of reduce and the like too.
    """
    _refuse_carried(module.operation, module.operation.attributes)
    reader = _Reader(read_shardy_meshes(module), mesh, Unheeded(module, mesh, ledger))
    for function, ops in zip(functions, visits, strict=True):
        for side in SIDES:
            reader.read_boundary(function, side)
        named = [op for op, name, _ in ops if name == _NAMED_COMPUTATION]
        for op in named:
            _dissolve_named(op)
        if named:
            ops = list(walk(function, combiners=True))
        if any(name == MANUAL_COMPUTATION for _, name, _ in ops):
            import_manual_regions(function, mesh, reader.per_value)
            ops = list(walk(function, combiners=True))
        for op, name, _ in ops:
            reader.read_op(op, name)
        reader.tie_groups()
    for op in ops_of(module.body):
        if op.name == "sdy.mesh":
            op.erase()


def _refuse_carried(op: ir.Operation, attributes: Any) -> None:
    """Refuse what XLA hangs on a module, an argument or a result in the place of `sdy.sharding`."""
    if _CARRIED in attributes and "xla.sdy." in str(attributes[_CARRIED]):
        error(
            op,
            "the module holds Shardy's annotations as XLA carries them (xla.sdy.*); give the "
            "module that XLA was given, with sdy.sharding",
        )


def _dissolve_named(op: ir.Operation) -> None:
    """Put a named computation's body in its place, with its shardings as constraints."""

    def constrained(value: Value, sharding: str, at: ir.InsertionPoint) -> ir.Operation:
        attributes = {"sharding": ir.Attribute.parse(sharding)}
        make = Trail(at, op.location)
        return make.create(_CONSTRAINT, [value], [value.type], attributes)

    arguments = op.regions[0].blocks[0].arguments
    for k, sharding in enumerate(_shardings(op, "in_shardings")):
        if is_read(arguments[k]):
            op.operands[k] = constrained(op.operands[k], sharding, ir.InsertionPoint(op)).results[0]
    for result, sharding in zip(op.results, _shardings(op, "out_shardings"), strict=False):
        if not is_read(result):
            continue
        new = constrained(result, sharding, ir.InsertionPoint.after(op))
        result.replace_all_uses_except(new.results[0], new)
    dissolve(op, op.operands, op)


def _shardings(op: ir.Operation, name: str) -> list[str]:
    return list(per_value(str(op.attributes[name]))) if name in op.attributes else []


class _Reader:
    """Rewrites the annotations of one module."""

    def __init__(self, meshes: dict[str, Mesh], mesh: Mesh, unheeded: Unheeded) -> None:
        self.meshes = meshes
        self.unheeded = unheeded
        self.mesh = mesh
        self.groups: dict[int, list[ir.Operation]] = {}

    def read_boundary(self, function: ir.Operation, side: str) -> None:
        """Shardings of arguments or results; a layout that stands there says more, and stays."""
        if side not in function.attributes:
            return
        attributes = entries(function, side)
        types = boundary_types(function, side)
        what = "argument" if side == ARG_ATTRS else "result"
        for number, (entry, type_) in enumerate(zip(attributes, types, strict=True)):
            _refuse_carried(function, entry)
            self.unheeded.memory(function, entry, f"{what} {number}")
            sharding = entry.pop(_SHARDING_ATTR, None)
            gspmd = entry.pop(GSPMD_ATTR, None)
            if LAYOUT in entry:
                continue
            rank = len(tensor_shape(type_) or ())
            layout = self.boundary_layout(function, f"{what} {number}", sharding, gspmd, rank)
            if layout is not None:
                entry[LAYOUT] = layout_attr(layout)
        set_entries(function, side, attributes)

    def boundary_layout(
        self,
        function: ir.Operation,
        what: str,
        sharding: ir.Attribute | None,
        gspmd: ir.Attribute | None,
        rank: int,
    ) -> Layout | None:
        """The layout of an argument or a result, `what`, by Shardy's sharding or by GSPMD's."""
        if sharding is None and gspmd is None:
            return None
        other = None if gspmd is None else self.gspmd(function, gspmd, rank, what)
        if sharding is None:
            return other
        layout = self.layout(function, str(sharding), rank, what)
        if other is not None and contradict(layout, other):
            error(
                function,
                f"{what} is {layout.short()} by {_SHARDING_ATTR} and {other.short()} by "
                f"{GSPMD_ATTR}; leave one out",
            )
        return layout

    def layout(self, op: ir.Operation, text: str, rank: int, what: str = "") -> Layout:
        """The layout of a sharding of Shardy's; `what` is the argument or result it is of."""
        if op.name != CUSTOM_CALL:  # jax calls Python from one device
            self.unheeded.lone_device(op, text, what or f"the result of {op.name}")
        try:
            return sharding_layout(text, self.meshes, self.mesh, rank)
        except LayoutError as wrong:
            error(op, str(wrong))

    def gspmd(
        self, op: ir.Operation, sharding: str | ir.Attribute, rank: int, what: str = ""
    ) -> Layout:
        """The layout of one of GSPMD's shardings; `what` is the argument or result it is of."""
        config = op.attributes["backend_config"] if "backend_config" in op.attributes else ""
        try:
            text = sharding if isinstance(sharding, str) else sharding_text(sharding)
            if what or is_gspmd_constraint(op):
                self.unheeded.lone_device(op, text, what or "the operand of @Sharding")
            return gspmd_layout(text, self.mesh, rank, str(config))
        except LayoutError as wrong:
            error(op, f"{what}: {wrong}" if what else str(wrong))

    def per_value(self, op: ir.Operation, name: str, ranks: Sequence[int]) -> list[Layout]:
        """The layouts that an attribute writes, one per value."""
        texts = list(per_value(str(op.attributes[name])))
        return [self.layout(op, text, rank) for text, rank in zip(texts, ranks, strict=True)]

    def read_op(self, op: ir.Operation, name: str) -> None:
        """Rewrite one operation."""
        if name.startswith("sdy."):
            self._read_own(op, name)
        elif _SHARDING_ATTR in op.attributes:
            text = str(op.attributes[_SHARDING_ATTR])
            forget(op, _SHARDING_ATTR, GSPMD_ATTR)  # the second says the same
            for value, sharding in zip(op.results, per_value(text), strict=False):
                shape = tensor_shape(value.type)
                if shape is not None:
                    constrain(op, value, self.layout(op, sharding, len(shape)))
        elif GSPMD_ATTR in op.attributes:
            self._read_gspmd(op)

    def _read_gspmd(self, op: ir.Operation) -> None:
        """A custom call that constrains its operand, or another operation its results."""
        given = op.attributes[GSPMD_ATTR]
        del op.attributes[GSPMD_ATTR]
        shapes = [tensor_shape(result.type) for result in op.results]
        if is_gspmd_constraint(op):
            replace_by_relayout(op, self.gspmd(op, given, len(shapes[0] or ())))
            return
        try:
            each = shardings_of(sharding_text(given), len(shapes))
        except LayoutError as wrong:
            error(op, str(wrong))
        for value, shape, sharding in zip(op.results, shapes, each, strict=True):
            if shape is not None:
                constrain(op, value, self.gspmd(op, sharding, len(shape)))

    def _read_own(self, op: ir.Operation, name: str) -> None:
        """An operation of Shardy's dialect."""
        key = "sharding" if name in _EDGES else _CONVERSIONS.get(name)
        if name in _EDGES and "sharding" not in op.attributes:
            replace_op(op, op.operands)
        elif key is not None:
            shape = tensor_shape(op.results[0].type) or ()
            layout = self.layout(op, str(op.attributes[key]), len(shape))
            if name == _CONSTRAINT and not is_read(op.results[0]):
                constrain_operand(op, layout)  # Shardy means the value itself, whoever reads it
            else:
                replace_by_relayout(op, layout)
        elif name == "sdy.propagation_barrier":
            self._read_barrier(op)
        elif name == "sdy.constant":
            self._read_constant(op)
        elif name == "sdy.sharding_group":
            number = ir.IntegerAttr(op.attributes["group_id"]).value
            self.groups.setdefault(number, []).append(op)
        else:
            error(op, f"{name} has no counterpart in dtensor; remove it")

    def _read_barrier(self, op: ir.Operation) -> None:
        direction = DIRECTIONS[ir.IntegerAttr(op.attributes["allowed_direction"]).value]
        new = build.propagation_barrier(
            op.operands[0], direction, op.location, ir.InsertionPoint(op)
        )
        op.results[0].replace_all_uses_with(new)
        if _SHARDING_ATTR in op.attributes:
            barrier = operation_of(new)
            barrier.attributes[_SHARDING_ATTR] = op.attributes[_SHARDING_ATTR]
            self.read_op(barrier, barrier.name)
        op.erase()

    def _read_constant(self, op: ir.Operation) -> None:
        kept = [name for name in ("value", _SHARDING_ATTR) if name in op.attributes]
        attributes = {name: op.attributes[name] for name in kept}
        new = Builder(op).create(CONSTANT, [], [op.results[0].type], attributes)
        replace_op(op, [new.results[0]])
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
