"""Affine maps of a few numbers: two, one after the other, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dtensor.dialect.mlir import Value
from dtensor.passes.builder import Builder

Key = TypeVar("Key")


def composed(
    entries: Sequence[tuple[Key, Key]],
    keys: Sequence[Key],
    make: Builder,
    earlier: Sequence[Value],
    later: Sequence[Value],
) -> list[Value]:
    """Two affine maps as one, which first does what `earlier` does.

    Args:
        entries: the row and the column of each entry of a matrix that may not be zero.
        keys: the rows of the vectors that are added.
        make: creates operations.
        earlier: the entries of a matrix, and then those of a vector.
        later: likewise.
    """
    before, after = (dict(zip(entries, side, strict=False)) for side in (earlier, later))
    given, added = (dict(zip(keys, side[len(entries) :], strict=True)) for side in (earlier, later))

    def mapped(row: Key, column: Mapping[Key, Value]) -> list[Value]:
        found = [(after[row, i], value) for i, value in column.items() if (row, i) in after]
        return [make.binary("multiply", *make.of_one_shape(*pair)) for pair in found]

    columns = {c: {i: v for (i, d), v in before.items() if d == c} for _, c in entries}
    found = [make.combined("add", mapped(row, columns[c])) for row, c in entries]
    return found + [make.combined("add", [*mapped(row, given), added[row]]) for row in keys]
