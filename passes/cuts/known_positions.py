"""Gathers, scatters and dynamic slices at known positions: slices, reversals, repetitions.

A gather of rows 0, 0, 1, 1, 2, 2 is `jnp.repeat`, one of rows 3, 2, 1 a reversal, and one of a
matrix of positions may read frames, or a grid of rows and columns. One of `arange(n) ^ 4` exchanges
blocks. Written so, a split dimension stays split. Of a gather nobody knows which shard has what it
reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product, repeat

import numpy as np

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.columns import Columns
from dtensor.passes.cuts.digits import PositionDigits
from dtensor.passes.cuts.frames import Frames
from dtensor.passes.cuts.known_windows import (
    filled_around,
    filled_with,
    of_dynamic_slice,
    update_kind,
)
from dtensor.passes.cuts.nearby import Nearby
from dtensor.passes.cuts.runs import Runs, box
from dtensor.passes.ops.attributes import integers, is_identity, shape_of
from dtensor.passes.ops.indexing import ANY_INDEX, IndexNumbers
from dtensor.passes.ops.numbers import Numbers, nearly_known_integers
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.rewriting.names import (
    CUTS,
    DYNAMIC_SLICE,
    DYNAMIC_UPDATE_SLICE,
    GATHER,
    INDEXED,
    SCATTER,
)
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import At, Shards

_FEW_RUNS = 2  # runs; more of them may be exchanged blocks
Said = Runs | Frames | Columns | PositionDigits | Nearby  # what known positions are

_WIDEST_STEP = 8  # from one element that is written to the next, where most are said to be
_SPARSEST = 64  # elements of the whole for each that is written


def write_as_cuts(function: Rewriting) -> None:
    """Rewrite what reads or writes at known positions."""
    for op in function.named(*INDEXED):
        if len(op.results) == 1:  # a scatter may have several
            function.replace(op, _WRITTEN[op.name](op, function))


@dataclass(frozen=True)
class _Access:
    """What known index vectors say of one dimension.

    Attributes:
        dim: the dimension.
        axes: the dimensions of index vectors on which it depends where they read or write.
        starts: where that begins, by these.
        width: how many elements from there on.
        is_wide: whether these have a dimension of their own in what is read or written.
        slack: by how much the program's numbers may differ from `starts`, as rounding decides.
        numbers: the program's numbers: the index vectors, their dimension, and the place in that.
    """

    dim: int
    axes: tuple[int, ...]
    starts: Numbers
    width: int
    is_wide: bool
    slack: int
    numbers: tuple[Value, int, int]

    @property
    def is_dropped(self) -> bool:
        """Whether what is read or written has no dimension for this one."""
        return not self.axes and not self.is_wide

    def said(self, size: int, shards: Callable[[], int]) -> Said | None:
        """Where elements are read or written, if that is a few runs, frames, or of a few digits.

        Args:
            size: of the dimension.
            shards: says into how many it is split.
        """
        starts = self.starts
        if self.slack:
            is_row = starts.ndim == 1 and not self.is_wide
            return Nearby.of(starts, size, shards, self.slack) if is_row else None
        positions = starts[..., None] + np.arange(self.width) if self.is_wide else starts
        if positions.ndim > 1:
            is_matrix = positions.ndim == 2
            found = (is_matrix and Frames.of(positions, shards)) or PositionDigits.of(positions)
            if found is None and is_matrix and shards() > 1:
                return Columns.of(positions, size)
            return found
        row = np.atleast_1d(positions)
        runs = Runs.of(row)
        is_few = runs is not None and len(runs.each) <= _FEW_RUNS
        if is_few:
            return runs
        return PositionDigits.of(row) or runs or Frames.flat(row) or Nearby.of(row, size, shards)

    def written(self, size: int, kind: str, shards: Callable[[], int]) -> Said | None:
        """The same of a scatter; None where one is dropped, or the order of updates matters."""
        if (self.starts < 0).any() or (self.starts > size - self.width).any():
            return None
        said = self.said(size, shards)
        if isinstance(said, PositionDigits) and kind == "set" and math.prod(said.shape) < size:
            said = Runs.of(np.atleast_1d(self.starts)) if len(said.shape) == 1 else None
        if isinstance(said, Frames | Columns | Nearby):
            return None if kind == "set" else said
        if said is None or isinstance(said, PositionDigits):
            return said
        is_set_twice = kind == "set" and said.once < self.starts.size * self.width
        return None if is_set_twice or not said.step else said

    def taken(self, make: Builder, value: Value, said: Said) -> Value:
        """What stands at positions along the dimension."""
        if isinstance(said, Nearby):
            return said.taken(make, value, self.dim, self._index(make))
        value = said.taken(make, value, self.dim)
        return make.regrouped(value, self.dim) if self.is_dropped else value

    def put_back(
        self,
        make: Builder,
        value: Value,
        said: Said,
        size: int,
        nothing: Value,
        beside: Value,
    ) -> list[Value]:
        """Put elements back to their positions: the transpose of `taken`; see `Runs.put_back`."""
        if self.is_dropped:
            value = make.regrouped(value, self.dim, 1, count=0)
        if isinstance(said, Nearby):
            return said.put_back(make, value, self.dim, self._index(make), nothing, beside)
        return said.put_back(make, value, self.dim, size, nothing, beside)

    def _index(self, make: Builder) -> Value:
        """The program's numbers, a vector of as many as there are positions."""
        value, vector, place = self.numbers
        for d, size in reversed([*enumerate(make.shape_of(value))]):
            if d == vector:
                value = make.cut(value, d, place, 1)
            elif size > 1 and d - (d > vector) not in self.axes:
                value = make.cut(value, d, 0, 1)
        return make.reshape(value, (self.starts.size,))


@dataclass(frozen=True)
class _Counted:
    """Into how many shards layouts given split what is read or written, or what it is read into.

    Attributes:
        shards: know.
        whole: what is read from or written into.
        part: what is read or written.
        beside: the dimensions that index vectors have in that.
    """

    shards: Shards
    whole: Value
    part: Value
    beside: Sequence[int]

    def of(self, access: _Access) -> int:
        """Along the dimension that index vectors say it of."""
        places = [(self.part, self.beside[axis]) for axis in access.axes]
        return self.shards.count(*places, *_cut_of(self.whole, access.dim))

    def know(self, access: _Access, said: Said) -> None:
        """Windows that are cut as they are because of how they are split will be split so."""
        if isinstance(said, Columns) or (isinstance(said, Frames) and said.together > 1):
            axis = access.axes[-1 if said.is_transposed else 0]
            self.shards.will_split(self.part, self.beside[axis], self.of(access))


def _cut_of(value: Value, dim: int) -> Iterator[At]:
    """A dimension of a value, and of those that slices, pads and joins make it of."""
    yield value, dim
    op = maker_of(value)
    if op is not None and op.name in CUTS:
        for operand in op.operands:
            if shape_of(operand):
                yield from _cut_of(operand, dim)


def _reaches_most(access: _Access, said: Said, size: int) -> bool:
    """Whether elements are written all over most of a dimension, not further apart than a few."""
    count = access.starts.size * access.width
    return said.step <= _WIDEST_STEP and 2 * count * said.step >= size


def _accesses(
    indices: tuple[Value, int],
    named: Sequence[int],
    gone: Sequence[int],
    widths: Sequence[int],
    sizes: Sequence[int],
) -> list[_Access] | None:
    """What a gather or a scatter says of dimensions, if of each by itself; else None.

    Args:
        indices: its index vectors, and the dimension that holds them.
        named: the dimensions that the numbers of a vector speak of.
        gone: the dimensions that what is read or written does not have.
        widths: how many elements of each dimension a vector reads or writes.
        sizes: of the dimensions.
    """
    dims = [d for d, size in enumerate(sizes) if widths[d] != size or d in gone]
    if not dims or not set(dims) <= set(named) or 0 in sizes:
        return None
    nearly = nearly_known_integers(indices[0])
    if nearly is None or not nearly[0].size:
        return None
    found, slack = nearly
    if found.dtype == np.uint64:  # what no signed integer holds is beyond any dimension
        found = np.minimum(found, ANY_INDEX)
    is_scalar = indices[1] == found.ndim
    vectors = found[..., None] if is_scalar else np.moveaxis(found, indices[1], -1)
    if vectors[..., [d not in dims for d in named]].any():
        return None
    columns = [vectors[..., list(named).index(d)].astype(np.int64) for d in dims]
    axes = [
        [axis for axis in range(starts.ndim) if (starts != starts.take([0], axis)).any()]
        for starts in columns
    ]
    taken = [axis for mine in axes for axis in mine]
    if len(set(taken)) < len(taken):
        return None
    # What none depends on says the same of the first once more.
    axes[0] = sorted({*range(vectors.ndim - 1)} - {*taken[len(axes[0]) :]})
    return [
        _Access(
            d,
            tuple(mine),
            starts[tuple(slice(None) if a in mine else 0 for a in range(starts.ndim))],
            widths[d],
            d not in gone,
            slack,
            (*indices, list(named).index(d)),
        )
        for d, mine, starts in zip(dims, axes, columns, strict=True)
    ]


def _order(
    accesses: Sequence[_Access], rank: int, beside: Sequence[int], windows: Sequence[int]
) -> list[int]:
    """Which dimensions of what is read or written come where their positions lie, in order.

    Args:
        accesses: what is said of dimensions.
        rank: of what is read from or written into.
        beside: the dimensions that index vectors have in what is read or written.
        windows: those of what stands at each.
    """
    said, left = {access.dim: access for access in accesses}, iter(windows)
    order = []
    for d in range(rank):
        if d in said:
            order += [beside[axis] for axis in said[d].axes]
        if d not in said or said[d].is_wide:
            order.append(next(left))
    return order


def _of_gather(op: ir.Operation, function: Rewriting) -> Value | None:
    numbers = IndexNumbers.of(op)
    operand, indices = op.operands
    sizes, widths = shape_of(operand), integers(op.attributes["slice_sizes"])
    named, gone = numbers.named, numbers.gone
    if numbers.walked:
        return None
    accesses = _accesses((indices, numbers.vector_dim), named, gone, widths, sizes)
    # what would reach outside is moved inside
    accesses = [
        replace(a, starts=np.clip(a.starts, 0, sizes[a.dim] - a.width)) for a in accesses or ()
    ]
    offsets = numbers.windows
    beside = [d for d in range(len(shape_of(op.results[0]))) if d not in offsets]
    shards = _Counted(function.shards, operand, op.results[0], beside)
    said = [e for a in accesses if (e := a.said(sizes[a.dim], partial(shards.of, a))) is not None]
    if not accesses or len(said) < len(accesses):
        return None
    builder, value = Builder(op, function.made), operand
    for access, each in reversed([*zip(accesses, said, strict=True)]):
        value = access.taken(builder, value, each)
        shards.know(access, each)
    order = _order(accesses, len(sizes), beside, offsets)
    return builder.transpose(value, [order.index(d) for d in range(len(order))])


def _of_scatter(op: ir.Operation, function: Rewriting) -> Value | None:
    """What is added at known positions, in the size of the whole; or chosen there, if it is set.

    Where few rows of something large are written, that is better done in its place.
    """
    if len(op.operands) != 3:
        return None
    numbers = IndexNumbers.of(op)
    into, indices, update = op.operands
    kind = update_kind(op)
    if kind not in ("set", Reduction.SUM) or numbers.walked:
        return None
    named, gone, windows = numbers.named, numbers.gone, numbers.windows
    sizes, counts = shape_of(into), shape_of(update)
    written = iter([counts[d] for d in windows])
    widths = [1 if d in gone else next(written) for d in range(len(sizes))]
    accesses = _accesses((indices, numbers.vector_dim), named, gone, widths, sizes)
    if accesses is None or not any(access.axes for access in accesses):
        # One window: what it is computed of may tell how to write it.
        return filled_around(op, function.made) if kind == "set" else None
    into_nothing = kind != "set" and is_identity(into, Reduction.SUM)
    beside = [d for d in range(len(counts)) if d not in windows]
    shards = _Counted(function.shards, op.results[0], update, beside)
    said = [
        e
        for a in accesses
        if (e := a.written(sizes[a.dim], kind, partial(shards.of, a))) is not None
    ]
    pairs = list(zip(accesses, said, strict=False))
    is_most = any(_reaches_most(access, each, sizes[access.dim]) for access, each in pairs)
    for_each = math.prod(sizes[a.dim] / (a.starts.size * a.width) for a in accesses)
    is_dense = is_most and for_each <= _SPARSEST
    if len(said) < len(accesses) or not (into_nothing or is_dense):
        return None
    builder = Builder(op, function.made)
    parts = [builder.transpose(update, _order(accesses, len(sizes), beside, windows))]
    nothing = builder.identity("sum", builder.tensor_type((), builder.element_of(into)))
    # XLA takes 0 + -0 for -0: what is first added to zeros brings the same zeros.
    filled = (filled_with(into) if into_nothing else None) or nothing
    for access, each in pairs:
        size, fills = sizes[access.dim], chain([filled], repeat(nothing))
        parts = [
            whole
            for part, fill in zip(parts, fills, strict=False)
            for whole in access.put_back(builder, part, each, size, nothing, fill)
        ]
    if kind != "set":
        return builder.combined("add", (into, *parts))
    # Of digits all elements are written: what they are put back to is all that is left.
    runs = [(access.dim, each.each) for access, each in pairs if isinstance(each, Runs)]
    choices = product(*(each for _, each in runs))
    for part, chosen in zip(parts, choices, strict=True):
        inside = {dim: run for (dim, _), run in zip(runs, chosen, strict=True)}
        into = builder.select(box(builder, sizes, inside), part, into) if inside else part
    return into


_WRITTEN: dict[str, Callable[[ir.Operation, Rewriting], Value | None]] = {
    GATHER: _of_gather,
    SCATTER: _of_scatter,
    DYNAMIC_SLICE: lambda op, function: of_dynamic_slice(op, function.made),
    DYNAMIC_UPDATE_SLICE: lambda op, function: filled_around(op, function.made),
}
