"""Cuts between rows of one length and rows of another, written as cuts of the flat elements.

Relative attention moves row i of its scores by i places: it pads each of n rows of n, reads the
elements as n + 1 rows of n, drops the first one, and may read what is left as other rows again.
Shards of the first rows are not shards of the second. But a shard has nearly the same elements of
both, if all are counted one after another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, made_by, users
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import pad_numbers, shape_of, slice_numbers
from dtensor.passes.ops.padding import PART
from dtensor.passes.rewriting.names import PAD, RESHAPE, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting


def cut_elements(function: Rewriting) -> None:
    """Write cuts of rows, which are reshaped before or after, as cuts of their elements."""
    for op in function.named(SLICE, PAD):
        dim = _cut_dim(op)
        if dim is not None:
            _replace(function, op, dim)


def _replace(function: Rewriting, op: ir.Operation, dim: int) -> None:
    """Let a cut of flat elements stand for a cut of rows, if shards divide what is reshaped."""
    rows, left, ends = op.operands[0], op.results[0], list(_ends(op.results[0]))
    for source in _sources(rows):
        if source == rows and ends == [left]:
            continue
        count = function.shards.count(*((value, dim) for value in (source, *ends)))
        if count < 2 or not all(_divides(count, value, dim) for value in (source, *ends)):
            continue
        if all(_divides(count, value, dim) for value in (rows, left)):
            continue  # each shard has whole rows as it is
        flat = Elements.of(dim, [shape_of(value) for value in (source, rows, left, *ends)])
        if flat is None:
            continue
        make = Builder(op, function.made)
        value = flat.cut(make, op, make.reshape(source, flat.shape(shape_of(source))))
        for end in ends:
            end.replace_all_uses_with(make.reshape(value, shape_of(end)))
        function.has_changed = True
        return


def _divides(count: int, value: Value, dim: int) -> bool:
    shape = shape_of(value)
    return dim < len(shape) and shape[dim] % count == 0


def _cut_dim(op: ir.Operation) -> int | None:
    """The one dimension that a slice or a pad changes, by little, and at its ends alone."""
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    changed = [d for d, sizes in enumerate(zip(before, after, strict=True)) if len({*sizes}) > 1]
    if len(changed) != 1 or 0 in after:
        return None
    dim = changed[0]
    if op.name == PAD:
        low, high, gap = (numbers[dim] for numbers in pad_numbers(op))
        is_whole = not gap
    else:
        low, limit, stride = (numbers[dim] for numbers in slice_numbers(op))
        high, is_whole = before[dim] - limit, stride == 1
    return dim if is_whole and PART * max(abs(low), abs(high)) <= before[dim] else None


def _sources(value: Value) -> Iterator[Value]:
    """A value, and those that it is a reshape of."""
    yield value
    while (maker := made_by(RESHAPE, value)) is not None:
        value = maker.operands[0]
        yield value


def _ends(value: Value) -> Iterator[Value]:
    """What a value is reshaped to in the end; itself too, if something else reads it."""
    readers = users(value)
    if not readers or any(reader.name != RESHAPE for reader in readers):
        yield value
    for reader in readers:
        if reader.name == RESHAPE:
            yield from _ends(reader.results[0])


@dataclass(frozen=True)
class Elements:
    """The elements of rows, flat: one after another. They may be read as rows of another length.

    Attributes:
        dim: the dimension of the rows.
        behind: how many dimensions there are behind those of one row.
    """

    dim: int
    behind: int

    @staticmethod
    def of(dim: int, shapes: Sequence[Sequence[int]]) -> Elements | None:
        """How the elements of some shapes are flat; None where these are not rows along `dim`.

        The shapes are those of a source, of the same in rows, and then of what is left after the
        cut, in rows and in other shapes.
        """
        behind = 0
        while len({tuple(shape[-behind - 1 :]) for shape in shapes}) == 1 and all(
            len(shape) > dim + 1 + behind for shape in shapes
        ):
            behind += 1
        found = Elements(dim, behind)
        source, rows, *others = [found.shape(shape) for shape in shapes]
        return found if source == rows and all(other == others[0] for other in others) else None

    def shape(self, rows: Sequence[int]) -> list[int]:
        """The elements of rows in one dimension."""
        end = len(rows) - self.behind
        return [*rows[: self.dim], math.prod(rows[self.dim : end]), *rows[end:]]

    def cut(self, make: Builder, op: ir.Operation, value: Value) -> Value:
        """What an operation does with rows, done with their elements."""
        shape, dim = shape_of(op.operands[0]), self.dim
        row = self.shape(shape)[dim] // shape[dim]
        if op.name == SLICE:
            start, limit = (numbers[dim] * row for numbers in slice_numbers(op)[:2])
            return make.cut(value, dim, start, limit - start)
        low, size = pad_numbers(op)[0][dim], shape_of(op.results[0])[dim]
        return make.lengthened(value, dim, low * row, size * row, op.operands[1])
