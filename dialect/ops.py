"""The dialect's operations: classes and attributes, in one table at the end.

Their checks are in `dtensor.dialect.checks`, builders of some in `dtensor.dialect.build`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from dtensor.dialect import checks, names
from dtensor.dialect.checks import Facts
from dtensor.dialect.kinds import (
    AXES,
    CALL,
    DIRECTION,
    DOT_NUMBERS,
    FFT_TYPE,
    GATHER_NUMBERS,
    INDEX,
    INDICES,
    LAYOUT,
    LAYOUTS,
    MESH,
    NAMES,
    PRECISION,
    REDUCTION,
    SOME_INDICES,
    SYMBOL,
    VISIBILITY,
    Kind,
    Meshes,
)
from dtensor.dialect.mlir import ir, register_dialect, register_operation

ANY: Final = -1  # number of operands or results

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
    OPERANDS: ClassVar[int | None] = 1  # None: one or more; ANY: or none
    RESULTS: ClassVar[int | None] = 1
    TOKENS: ClassVar[bool] = False  # whether it takes tokens, too
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
    CHECK = staticmethod(checks.mesh)


@register_operation(DTensorDialect)
class RelayoutOp(DTensorOp):
    """The operand's global value, laid out as `layout`.

    In the user's program a constraint; after dtensor-insert-relayouts a conversion.
    """

    OPERATION_NAME = names.RELAYOUT
    ATTRIBUTES: ClassVar = {names.LAYOUT_ATTR: LAYOUT}
    CHECK = staticmethod(checks.relayout)


@register_operation(DTensorDialect)
class AlikeOp(DTensorOp):
    """The operands, all in one layout: what a sharding group of Shardy asks for."""

    OPERATION_NAME = names.ALIKE
    ATTRIBUTES: ClassVar = {}
    OPERANDS = None
    RESULTS = None
    CHECK = staticmethod(checks.alike)


@register_operation(DTensorDialect)
class PropagationBarrierOp(DTensorOp):
    """The operand, in a layout of its own: layouts pass it in the allowed direction alone.

    `forward` lets the result follow the operand, `backward` the operand the result, and with
    `none` each side is laid out as if the other were not there.
    """

    OPERATION_NAME = names.PROPAGATION_BARRIER
    ATTRIBUTES: ClassVar = {names.ALLOWED_DIRECTION: DIRECTION}
    CHECK = staticmethod(checks.alike)


@register_operation(DTensorDialect)
class PlusZeroOp(DTensorOp):
    """The operand, with 0 for each negative zero: parts of a sum, if the operand is such parts.

    An addition of zeros says the same, but XLA takes it for its operand, signs of zeros and all.
    """

    OPERATION_NAME = names.PLUS_ZERO
    ATTRIBUTES: ClassVar = {}
    CHECK = staticmethod(checks.alike)


@register_operation(DTensorDialect)
class ManualOp(DTensorOp):
    """What each device computes by itself over some mesh axes: the body of `jax.shard_map`.

    `in_layouts` and `out_layouts` say how operands and results are laid out, `unit` stands for a
    token. In the region values have the shapes of their shards over all axes but those of `free`.
    Over those the region is planned like the program around it; open dimensions say where they may
    split what comes in and goes out. The region may communicate over the others as it likes.
    """

    _ODS_REGIONS = (1, True)
    OPERATION_NAME = names.MANUAL
    ATTRIBUTES: ClassVar = {
        names.IN_LAYOUTS: LAYOUTS,
        names.OUT_LAYOUTS: LAYOUTS,
        names.FREE: NAMES,
    }
    OPERANDS = ANY
    RESULTS = ANY
    TOKENS = True
    REGIONS = 1
    CHECK = staticmethod(checks.manual)


@register_operation(DTensorDialect)
class AllGatherOp(DTensorOp):
    """The shards of all devices along `axes`, first axis major, concatenated in `dim`.

    The global value is unchanged; `dim` is no longer split over `axes`. Several operands,
    of elements of one size, are gathered in one message, each on its own.
    """

    OPERATION_NAME = names.ALL_GATHER
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.DIM: INDEX}
    OPERANDS = None
    RESULTS = None
    CHECK = staticmethod(checks.all_gather)


@register_operation(DTensorDialect)
class AllSliceOp(DTensorOp):
    """Each device's own slice of `dim`, by its coordinate along `axes`: no communication.

    The global value is unchanged; `dim` becomes split over `axes`. Inverse of all_gather.
    """

    OPERATION_NAME = names.ALL_SLICE
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.DIM: INDEX}
    CHECK = staticmethod(checks.slice)


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
    CHECK = staticmethod(checks.all_reduce)


@register_operation(DTensorDialect)
class ReduceScatterOp(DTensorOp):
    """all_reduce over `axes`, then all_slice of `dim` over the same axes, in one step.

    Several operands, of one element type, go in one message, each on its own.
    """

    OPERATION_NAME = names.REDUCE_SCATTER
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.DIM: INDEX, names.REDUCTION: REDUCTION}
    OPERANDS = None
    RESULTS = None
    CHECK = staticmethod(checks.reduce_scatter)


@register_operation(DTensorDialect)
class AllToAllOp(DTensorOp):
    """Moves `axes` from `concat_dim`, which becomes whole over them, to `split_dim`.

    The global value is unchanged. Several operands, of elements of one size, go in one message,
    each on its own.
    """

    OPERATION_NAME = names.ALL_TO_ALL
    ATTRIBUTES: ClassVar = {names.AXES: AXES, names.SPLIT_DIM: INDEX, names.CONCAT_DIM: INDEX}
    OPERANDS = None
    RESULTS = None
    CHECK = staticmethod(checks.all_to_all)


@register_operation(DTensorDialect)
class CollectivePermuteOp(DTensorOp):
    """Moves each shard from device k along `from` to device k along `to`.

    A device's k is its coordinates read along the axes, first axis major; coordinates on other
    axes stay. The global value is unchanged; digits `from` of its layout become `to`. Several
    operands, of elements of one size, go in one message, each on its own.
    """

    OPERATION_NAME = names.COLLECTIVE_PERMUTE
    ATTRIBUTES: ClassVar = {names.FROM: AXES, names.TO: AXES}
    OPERANDS = None
    RESULTS = None
    CHECK = staticmethod(checks.permute)


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
    CHECK = staticmethod(checks.halo)


@register_operation(DTensorDialect)
class ShardPermuteOp(DTensorOp):
    """Device k along `axes` has the operand of device `sources[k]`; zeros where that is -1.

    With `readers` these devices alone need it: others may have anything.
    """

    OPERATION_NAME = names.SHARD_PERMUTE
    ATTRIBUTES: ClassVar = {
        names.AXES: AXES,
        names.SOURCES: INDICES,
        names.READERS: SOME_INDICES,
    }
    CHECK = staticmethod(checks.shard_permute)


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
    CHECK = staticmethod(checks.splice)


@register_operation(DTensorDialect)
class SearchOp(DTensorOp):
    """Where each query belongs among the first `count` elements of a table, by bisection.

    Operand 0 is the table, of one dimension; the others are queries, of the shape of the result.
    From low = 0 and high = count on, the region compares a query's scalars and the element in the
    middle, `low + (high - low) / 2`: high becomes the middle if it gives true, low otherwise. The
    result is high when the two are next to each other and compared once more.
    """

    _ODS_REGIONS = (1, True)
    OPERATION_NAME = names.SEARCH
    ATTRIBUTES: ClassVar = {names.COUNT: INDEX}
    OPERANDS = None
    REGIONS = 1
    CHECK = staticmethod(checks.search)


@register_operation(DTensorDialect)
class RankedOp(DTensorOp):
    """The elements that would stand at some places along `dim`, if operand 0 were sorted.

    Operand 1 is the places, integers of one dimension, or with the other dimensions of operand 0
    behind it, where each row has its own; one beyond an end is that of the end. The region says
    whether a scalar stands before another. Equal elements keep their order. A second result says
    where these elements stand in operand 0.
    """

    _ODS_REGIONS = (1, True)
    OPERATION_NAME = names.RANKED
    ATTRIBUTES: ClassVar = {names.DIM: INDEX}
    OPERANDS = 2
    RESULTS = None
    REGIONS = 1
    CHECK = staticmethod(checks.ranked)


@register_operation(DTensorDialect)
class QrOp(DTensorOp):
    """Q and R of a tall matrix: columns of length one, and an upper triangle.

    Dimensions ahead of the last two are a batch of matrices.

    `factor` and `product` have the attributes of the library's calls: the one that gives reflectors
    and R in one matrix, and the one that multiplies the reflectors.
    """

    OPERATION_NAME = names.QR
    ATTRIBUTES: ClassVar = {names.FACTOR: CALL, names.PRODUCT: CALL}
    RESULTS = 2
    CHECK = staticmethod(checks.qr)


@register_operation(DTensorDialect)
class FftOp(DTensorOp):
    """The Fourier transforms of rows that are longer than `fft_length` says, or give longer ones.

    The attributes are those of `stablehlo.fft`, of one dimension. What stands behind the end of a
    row is not read; behind the end of a transform stand zeros.
    """

    OPERATION_NAME = names.FFT
    ATTRIBUTES: ClassVar = {names.FFT_TYPE: FFT_TYPE, names.FFT_LENGTH: INDICES}
    CHECK = staticmethod(checks.fft)


@register_operation(DTensorDialect)
class GatherDotOp(DTensorOp):
    """The `stablehlo.dot_general` of what a `stablehlo.gather` gives with operand 2.

    Operands 0 and 1 are those of the gather, whose windows hold whole dimensions or one element;
    the attributes are those of the two. What is gathered is converted to the elements of operand 2.
    """

    OPERATION_NAME = names.GATHER_DOT
    ATTRIBUTES: ClassVar = {
        names.GATHER_NUMBERS: GATHER_NUMBERS,
        names.SLICE_SIZES: INDICES,
        names.DOT_NUMBERS: DOT_NUMBERS,
        names.PRECISION: PRECISION,
    }
    OPERANDS = 3
    CHECK = staticmethod(checks.gather_dot)


@register_operation(DTensorDialect)
class ScanOp(DTensorOp):
    """What elements combine to, up to each one along `dim`; from the last one on if `reverse` is 1.

    The region combines what they are at one place with what they are at a later one, or an earlier
    one if `reverse` is 1; how they are put in brackets must not matter. If it takes scalars, all
    operands have one shape, and it combines their elements. If it takes tensors of the ranks of the
    operands, of any number of rows along `dim`, it combines each row by itself.
    """

    _ODS_REGIONS = (1, True)
    OPERATION_NAME = names.SCAN
    ATTRIBUTES: ClassVar = {names.DIM: INDEX, names.REVERSE: INDEX}
    OPERANDS = None
    RESULTS = None
    REGIONS = 1
    CHECK = staticmethod(checks.scan)


@register_operation(DTensorDialect)
class AxisIndexOp(DTensorOp):
    """The device's coordinate along `axes`, read as one number, first axis major."""

    OPERATION_NAME = names.AXIS_INDEX
    ATTRIBUTES: ClassVar = {names.AXES: AXES}
    OPERANDS = 0
    CHECK = staticmethod(checks.axis_index)


OPS: Final[dict[str, type[DTensorOp]]] = {
    op.OPERATION_NAME: op
    for op in (
        MeshOp,
        RelayoutOp,
        AlikeOp,
        PropagationBarrierOp,
        PlusZeroOp,
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
        SearchOp,
        RankedOp,
        QrOp,
        FftOp,
        GatherDotOp,
        ScanOp,
        AxisIndexOp,
    )
}

LOCAL_OPS: Final = frozenset(OPS) - {
    names.MESH_OP,
    names.RELAYOUT,
    names.ALIKE,
    names.PROPAGATION_BARRIER,
    names.PLUS_ZERO,
    names.MANUAL,
    names.SPLICE,
    names.SEARCH,
    names.RANKED,
    names.QR,
    names.FFT,
    names.GATHER_DOT,
    names.SCAN,
}
"""Operations that only stand in per-device modules."""
