"""The pass that writes dtensor collectives as StableHLO collectives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect import names
from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import entry_function, functions
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import forget, ir, ops_of, replace_op, terminator
from dtensor.dialect.ops import LOCAL_OPS
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import boundary_layouts, drop_boundary_layouts
from dtensor.passes.lowering.collectives import lowered
from dtensor.passes.lowering.control_flow import check_control_flow
from dtensor.passes.lowering.emitter import Emitter
from dtensor.passes.program import BARRIER, CUSTOM_CALL, WHILE, trip_count, walk

_SENDING = frozenset(
    "all_gather all_reduce all_to_all collective_broadcast collective_permute halo_exchange "
    "reduce_scatter shard_permute".split()
)

_PLANNED = (
    *(names.OPERANDS, names.RESULTS, names.ENDS),
    *(names.FITS, names.FOLDS, names.FILL, names.SIZE, names.STEPS),
)


@dataclass(frozen=True)
class LowerPass(Pass):
    """Writes every dtensor operation of a per-device module in plain StableHLO.

    Collectives get replica groups of mesh positions, `use_global_device_ids` and a channel of their
    own; coordinates are computed from `partition_id`, which each function reads once. Nothing of
    the dialect remains, except, if asked for, the layouts of arguments and results.

    A combined all_reduce becomes one per operand, side by side, which XLA combines again: with
    several results, jaxlib refuses it inside shard_map ("sharding is tuple-shaped").

    XLA's CPU code moves bf16 as f32, and floats of 8 bits as f16: twice the bytes. There, they are
    moved as the integers that have their bits. Integers of 2 bits, which it would write beyond the
    end of what it receives, are moved and added up as bytes.

    Collectives inside branches and loops are checked first: the axes over which a predicate may
    differ and the axes of the collectives it governs must not meet.

    Loops of unknown length that have collectives carry one value behind an optimization_barrier.
    XLA drops what a loop never changes, and where it finds that of all that is carried (a rejection
    loop that constants say never to run), but may not drop the loop, for its collectives, it ends
    the process: it has no loop that carries nothing.
    """

    name: ClassVar[str] = "dtensor-lower"

    keep_layouts: bool = False  # leave the layouts and the meshes of @main's arguments and results
    variadic: bool = False  # leave an all_reduce of several operands one operation
    bits: bool = False  # move bf16 and floats of 8 bits as integers; always for CPUs

    def run(self, module: ir.Module, state: PassState) -> None:
        meshes = state.meshes
        found = functions(module)
        loops: list[ir.Operation] = []
        listed = [(function, _own_operations(function, loops)) for function in found]
        main = found[0] if len(found) == 1 else entry_function(module)
        if main is not None:
            state.arg_layouts = boundary_layouts(main, names.ARG_ATTRS, meshes)
            state.result_layouts = boundary_layouts(main, names.RES_ATTRS, meshes)
            _check_expanded(module, main, [op.name for _, ops in listed for op in ops], state)
        check_control_flow(found, (op for _, ops in listed for op in ops), meshes)
        emitter = Emitter(self.variadic, self.bits or state.platform == "cpu")
        for loop in loops:
            if trip_count(loop) is None and _sends(loop):
                _carry_something(loop, emitter)
        for function, ops in listed:
            if ops:
                emitter.enter_function(function.regions[0].blocks[0])
            for op in ops:
                _lower(op, emitter, meshes)
        for function in found:
            if not self.keep_layouts:
                drop_boundary_layouts(function)
        if not self.keep_layouts:
            _drop_module_facts(module)
        state.forget_ir()


def _check_expanded(
    module: ir.Module, main: ir.Operation, own: list[str], state: PassState
) -> None:
    """Refuse a program of whole values: written plainly it would compute them on each device."""
    layouts = [*state.arg_layouts, *state.result_layouts]
    is_local = names.LOCAL_ATTR in module.operation.attributes or not LOCAL_OPS.isdisjoint(own)
    if not is_local and any(dim.digits for layout in layouts if layout for dim in layout.dims):
        error(
            main,
            "its arguments or results are split, and the module is not yet that of one device; "
            "run dtensor-expand before dtensor-lower",
        )


def _own_operations(function: ir.Operation, loops: list[ir.Operation]) -> list[ir.Operation]:
    """The dtensor operations of a function; the others lose what the dialect says of them.

    The loops are put into `loops`.
    """
    found = []
    for op, name, _ in walk(function, combiners=True):
        if name.startswith("dtensor."):
            found.append(op)
            continue
        if name == WHILE:
            loops.append(op)
        if name in (CUSTOM_CALL, WHILE):
            forget(op, names.DEFINED, names.TRIPS)
        attributes = op.attributes
        for left in _PLANNED:
            if left in attributes:
                error(op, f"'{name}' with '{left}'; run dtensor-expand before dtensor-lower")
    return found


def _sends(loop: ir.Operation) -> bool:
    """Whether there are collectives in a loop, ours or of a `jax.shard_map`."""
    return any(name.partition(".")[2] in _SENDING for _, name, _ in walk(loop))


def _carry_something(loop: ir.Operation, emitter: Emitter) -> None:
    """Pass on the smallest value that a loop carries so that XLA takes it for one that changes."""
    end = terminator(loop.regions[1].blocks[0])
    carried = list(enumerate(end.operands))
    if carried:
        slot, value = min(carried, key=lambda each: math.prod(emitter.shape_of(each[1])))
        emitter.move_to(end)
        end.operands[slot] = emitter.create(BARRIER, [value], [value.type]).results[0]


def _lower(op: ir.Operation, emitter: Emitter, meshes: dict[str, Mesh]) -> None:
    emitter.move_to(op)
    values = lowered(op, emitter, meshes)
    if values is None:
        error(op, f"'{op.name}' cannot be lowered; run dtensor-expand before dtensor-lower")
    replace_op(op, values)


def _drop_module_facts(module: ir.Module) -> None:
    forget(module.operation, names.LOCAL_ATTR)
    for op in ops_of(module.body):
        if op.name == names.MESH_OP:
            op.erase()
