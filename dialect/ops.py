"""The dialect's operations: classes, attributes, checks, in one table at the end.

A check is a plain function of what an operation says (`Facts`); it yields one sentence for each
thing that is wrong. Builders are in `dtensor.dialect.build`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dtensor.dialect import names
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.kinds import (
    AXES,
    INDEX,
    INDICES,
    LAYOUT,
    MESH,
    REDUCTION,
    SYMBOL,
    VISIBILITY,
    Kind,
    Meshes,
)
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir, register_dialect, register_operation


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
        return math.prod(axis.size for axis in self.axes(name))


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


def _scaled(shape: tuple[int, ...], dim: int, by: int) -> tuple[int, ...]:
    return (*shape[:dim], shape[dim] * by, *shape[dim + 1 :])


def _divided(shape: tuple[int, ...], dim: int, by: int) -> tuple[int, ...]:
    return (*shape[:dim], shape[dim] // by, *shape[dim + 1 :])


# Checks, one per operation.


def _check_mesh(facts: Facts) -> Iterator[str]:
    parent = facts.op.parent
    if parent is None or parent.operation.name != names.MODULE:
        yield "a mesh must stand at the top of the module; move it out of the function"


def _check_relayout(facts: Facts) -> Iterator[str]:
    layout: Layout = facts.attributes[names.LAYOUT_ATTR]
    problem = layout.problem(facts.operands[0].shape)
    if problem is not None:
        yield problem
    yield from _needs_result(facts, facts.operands[0].shape, "relayout (same global type)")


def _check_alike(facts: Facts) -> Iterator[str]:
    shape = facts.operands[0].shape
    for k, operand in enumerate(facts.operands):
        if operand.shape != shape:
            yield (
                f"operand {k} is {operand}, operand 0 is {facts.operands[0]}; "
                "only values of one shape can have one layout: take it out"
            )
    if facts.results != facts.operands:
        yield "results differ from operands; give each operand a result of its type"


def _check_manual(facts: Facts) -> Iterator[str]:
    for name in (names.OPERANDS, names.RESULTS):
        if name not in facts.op.attributes:
            yield f"has no {name}; say how what the region works on is laid out"


def _check_all_gather(facts: Facts) -> Iterator[str]:
    yield from (problems := list(_needs_dim(facts, names.DIM)))
    if not problems:
        shape = _scaled(facts.operands[0].shape, facts.number(names.DIM), facts.split())
        yield from _needs_result(facts, shape, f"gathering from {facts.split()} devices")


def _check_slice(facts: Facts) -> Iterator[str]:
    problems = list(_needs_dim(facts, names.DIM))
    dim = facts.number(names.DIM)
    if not problems:
        problems = list(_needs_division(facts, dim))
    yield from problems
    if not problems:
        shape = _divided(facts.operands[0].shape, dim, facts.split())
        yield from _needs_result(facts, shape, f"slicing among {facts.split()} devices")


def _check_all_reduce(facts: Facts) -> Iterator[str]:
    if len(facts.operands) != len(facts.results):
        yield (
            f"has {len(facts.operands)} operands and {len(facts.results)} results; "
            "give one result for each operand"
        )
        return
    for index, (operand, result) in enumerate(zip(facts.operands, facts.results, strict=True)):
        if operand != result:
            yield f"result {index} is {result}, but operand {index} is {operand}; make them equal"


def _check_all_to_all(facts: Facts) -> Iterator[str]:
    problems = [
        *_needs_dim(facts, names.SPLIT_DIM),
        *_needs_dim(facts, names.CONCAT_DIM),
    ]
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


def _check_permute(facts: Facts) -> Iterator[str]:
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


def _check_halo(facts: Facts) -> Iterator[str]:
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


def _check_shard_permute(facts: Facts) -> Iterator[str]:
    sources, devices = facts.attributes[names.SOURCES], facts.split()
    if len(sources) != devices:
        yield f"{len(sources)} sources for {devices} devices; name one for each"
    elif not all(-1 <= source < devices for source in sources):
        yield f"sources are {list(sources)}; give devices from 0 to {devices - 1}, or -1 for zeros"
    elif len(named := [source for source in sources if source >= 0]) != len(set(named)):
        yield f"sources are {list(sources)}; each device can send to one other only"
    yield from _needs_result(facts, facts.operands[0].shape, "a permutation")


def _check_splice(facts: Facts) -> Iterator[str]:
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


def _check_axis_index(facts: Facts) -> Iterator[str]:
    found = facts.results[0]
    if found.shape or str(found.element) != "i32":
        yield f"result is {found}, but a device's coordinate is tensor<i32>; change the result type"


# The classes. Iterating a module gives these views; `view.dim` and the like read attributes.


@register_dialect
class DTensorDialect(ir.Dialect):
    """The dtensor dialect, as far as MLIR's Python bindings know it."""

    DIALECT_NAMESPACE = names.NAMESPACE


# The bindings look for a module of this name at each op of the dialect, and search for it anew
# every time they find none: 40 us per op. This module is what they look for.
sys.modules.setdefault("jaxlib.mlir.dialects.dtensor", sys.modules[__name__])


class DTensorOp(ir.OpView):
    """Base of the dialect's operations."""

    _ODS_REGIONS = (0, True)
    OPERATION_NAME: ClassVar[str]
    ATTRIBUTES: ClassVar[dict[str, Kind]]
    OPERANDS: ClassVar[int | None] = 1  # None: one or more
    RESULTS: ClassVar[int | None] = 1
    REGIONS: ClassVar[int] = 0
    CHECK: ClassVar[staticmethod[[Facts], Iterator[str]]]

    def read(self, name: str, meshes: Meshes) -> Any:
        """Value of attribute `name`: a Layout, `(mesh, axes)`, an int or a string."""
        return self.ATTRIBUTES[name].read(self.operation.attributes[name], meshes)


@register_operation(DTensorDialect)
class MeshOp(DTensorOp):
    """Names a mesh: `"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>}`.

    Stands at the top of a module. Computes nothing; layouts and axes refer to it by symbol.
    """

    OPERATION_NAME = names.MESH_OP
    ATTRIBUTES: ClassVar = {
        names.SYM_NAME: SYMBOL,
        names.MESH_ATTR: MESH,
        names.SYM_VISIBILITY: VISIBILITY,
    }
    OPERANDS = 0
    RESULTS = 0
    CHECK = staticmethod(_check_mesh)


@register_operation(DTensorDialect)
class RelayoutOp(DTensorOp):
    """The operand's global value, laid out as `layout`.

    In the user's program a constraint; after dtensor-insert-relayouts a conversion.
    """

    OPERATION_NAME = names.RELAYOUT
    ATTRIBUTES: ClassVar = {names.LAYOUT_ATTR: LAYOUT}
    CHECK = staticmethod(_check_relayout)


@register_operation(DTensorDialect)
class AlikeOp(DTensorOp):
    """The operands, all in one layout: what `jax.experimental.shard_alike` asks for."""

    OPERATION_NAME = names.ALIKE
    ATTRIBUTES: ClassVar = {}
    OPERANDS = None
    RESULTS = None
    CHECK = staticmethod(_check_alike)


@register_operation(DTensorDialect)
class ManualOp(DTensorOp):
    """What each device computes by itself: the body of `jax.shard_map`.

    `dtensor.operands` and `dtensor.results` say how operands and results are laid out; the region
    works on their shards, and may communicate as it likes.
    """

    _ODS_REGIONS = (1, True)
    OPERATION_NAME = names.MANUAL
    ATTRIBUTES: ClassVar = {}
    OPERANDS = None
    RESULTS = None
    REGIONS = 1
    CHECK = staticmethod(_check_manual)


@register_operation(DTensorDialect)
class AllGatherOp(DTensorOp):
    """The shards of all devices along `axes`, first axis major, concatenated in `dim`.

    The global value is unchanged; `dim` is no longer split over `axes`.
    """

    OPERATION_NAME = names.ALL_GATHER
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.DIM: INDEX}
    CHECK = staticmethod(_check_all_gather)


@register_operation(DTensorDialect)
class AllSliceOp(DTensorOp):
    """Each device's own slice of `dim`, by its coordinate along `axes`: no communication.

    The global value is unchanged; `dim` becomes split over `axes`. Inverse of all_gather.
    """

    OPERATION_NAME = names.ALL_SLICE
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.DIM: INDEX}
    CHECK = staticmethod(_check_slice)


@register_operation(DTensorDialect)
class AllReduceOp(DTensorOp):
    """The reduction of what the devices along `axes` hold, on each of them.

    The global value is unchanged; it is no longer partial over `axes`. Several operands are
    reduced in one message, each on its own.
    """

    OPERATION_NAME = names.ALL_REDUCE
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.REDUCTION: REDUCTION}
    OPERANDS = None
    RESULTS = None
    CHECK = staticmethod(_check_all_reduce)


@register_operation(DTensorDialect)
class ReduceScatterOp(DTensorOp):
    """all_reduce over `axes`, then all_slice of `dim` over the same axes, in one step."""

    OPERATION_NAME = names.REDUCE_SCATTER
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.DIM: INDEX, names.REDUCTION: REDUCTION}
    CHECK = staticmethod(_check_slice)


@register_operation(DTensorDialect)
class AllToAllOp(DTensorOp):
    """Moves `axes` from `concat_dim`, which becomes whole over them, to `split_dim`.

    The global value is unchanged.
    """

    OPERATION_NAME = names.ALL_TO_ALL
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.SPLIT_DIM: INDEX, names.CONCAT_DIM: INDEX}
    CHECK = staticmethod(_check_all_to_all)


@register_operation(DTensorDialect)
class CollectivePermuteOp(DTensorOp):
    """Moves each shard from device k along `from` to device k along `to`.

    A device's k is its coordinates read along the axes, first axis major; coordinates on other
    axes stay. The global value is unchanged; digits `from` of its layout become `to`.
    """

    OPERATION_NAME = names.COLLECTIVE_PERMUTE
    ATTRIBUTES: ClassVar = {names.FROM: AXES, names.TO: AXES}
    CHECK = staticmethod(_check_permute)


@register_operation(DTensorDialect)
class HaloExchangeOp(DTensorOp):
    """Each shard, extended in `dim` by its neighbours' elements along `axes`.

    The last `low` elements of the lower neighbour come first, the first `high` of the upper one
    last; zeros stand there on the edge devices.
    """

    OPERATION_NAME = names.HALO_EXCHANGE
    ATTRIBUTES: ClassVar = {
        names.AXES: AXES,
        names.DIM: INDEX,
        names.LOW: INDEX,
        names.HIGH: INDEX,
    }
    CHECK = staticmethod(_check_halo)


@register_operation(DTensorDialect)
class ShardPermuteOp(DTensorOp):
    """Device k along `axes` has the operand of device `sources[k]`; zeros where that is -1."""

    OPERATION_NAME = names.SHARD_PERMUTE
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.SOURCES: INDICES}
    CHECK = staticmethod(_check_shard_permute)


@register_operation(DTensorDialect)
class SpliceOp(DTensorOp):
    """Stretches of its operands, one after another along `dim`; a scalar operand is repeated.

    Stretch i has the `counts[i]` elements of operand `sources[i]` from `starts[i]` on. Stands for
    chains of slices, pads and concatenations, whose values in between are of awkward sizes.
    """

    OPERATION_NAME = names.SPLICE
    ATTRIBUTES: ClassVar = {
        names.DIM: INDEX,
        names.SOURCES: INDICES,
        names.STARTS: INDICES,
        names.COUNTS: INDICES,
    }
    OPERANDS = None
    CHECK = staticmethod(_check_splice)


@register_operation(DTensorDialect)
class AxisIndexOp(DTensorOp):
    """The device's coordinate along `axes`, read as one number, first axis major."""

    OPERATION_NAME = names.AXIS_INDEX
    ATTRIBUTES: ClassVar = {names.AXES: AXES}
    OPERANDS = 0
    CHECK = staticmethod(_check_axis_index)


OPS: Final[dict[str, type[DTensorOp]]] = {
    op.OPERATION_NAME: op
    for op in (
        MeshOp,
        RelayoutOp,
        AlikeOp,
        ManualOp,
        AllGatherOp,
        AllSliceOp,
        AllReduceOp,
        ReduceScatterOp,
        AllToAllOp,
        CollectivePermuteOp,
        HaloExchangeOp,
        ShardPermuteOp,
        SpliceOp,
        AxisIndexOp,
    )
}

LOCAL_OPS: Final = frozenset(OPS) - {
    names.MESH_OP,
    names.RELAYOUT,
    names.ALIKE,
    names.MANUAL,
    names.SPLICE,
}
"""Operations that only stand in per-device modules."""
