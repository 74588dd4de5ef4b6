"""Gathers and scatters whose index vectors count the rows: each row is read or written by itself.

`logits[jnp.arange(n), labels]` and `x.at[jnp.arange(n), place].set(y)` name the row in a component
of each index vector, in order. Who reads the index vectors as any indices has to send them all, and
what is found. As a batching dimension the rows stay where they are, as in `jnp.take_along_axis`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.builder import Builder
from dtensor.passes.forms.row_places import counted_along
from dtensor.passes.ops.attributes import integers, shape_of
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.rewriting.rewriting import Rewriting


def replace_counts(op: ir.Operation, function: Rewriting) -> None:
    """Let a gather or a scatter walk the rows that its index vectors count.

    It stays where what it reads of each row is known and the same, for it is slices then.
    """
    place = len(op.operands) // 2  # one table and its indices, or as many updates as tables
    table, indices = shape_of(op.operands[0]), op.operands[place]
    numbers = IndexNumbers.of(op)
    joined = made_by("stablehlo.concatenate", indices)
    if joined is None or len(joined.operands) != len(numbers.named):
        return
    counts = _counts(op, numbers, table, indices)
    if not counts or len(counts) == len(numbers.named) or _are_alike(indices, numbers, counts):
        return
    rest = [k for k in range(len(numbers.named)) if k not in counts]
    make = Builder(op, function.made)
    vectors = make.joined([joined.operands[k] for k in rest], numbers.vector_dim)
    rows = {numbers.named[k]: dim for k, dim in counts.items()}
    walked = sorted([*zip(numbers.walked, numbers.beside, strict=True), *rows.items()])
    unsorted = {"indices_are_sorted": ir.BoolAttr.get(False)}
    new = make.again(op, [*list(op.operands)[:place], vectors], attributes=unsorted)
    IndexNumbers(
        numbers.windows,
        [d for d in numbers.gone if d not in rows],
        [d for d, _ in walked],
        [dim for _, dim in walked],
        [numbers.named[k] for k in rest],
        numbers.vector_dim,
    ).write(new)
    function.replace(op, *new.results)


def _are_alike(indices: Value, numbers: IndexNumbers, counts: Mapping[int, int]) -> bool:
    """Whether it is known that the other components are the same in all rows."""
    known = known_integers(indices)
    if known is None:
        return False
    rest = [k for k in range(len(numbers.named)) if k not in counts]
    others = np.take(known, rest, numbers.vector_dim)
    return all(bool((others == np.take(others, [0], dim)).all()) for dim in counts.values())


def _counts(
    op: ir.Operation, numbers: IndexNumbers, table: Sequence[int], indices: Value
) -> dict[int, int]:
    """The components that count all rows, and along which dimension of the indices each does."""
    sizes = integers(op.attributes["slice_sizes"]) if "slice_sizes" in op.attributes else None
    lengths = shape_of(indices)
    counts: dict[int, int] = {}
    for component, d in enumerate(numbers.named):
        is_one = d in numbers.gone and (sizes is None or sizes[d] == 1)
        if not is_one or table[d] < 2 or table[d] not in lengths:
            continue
        along = counted_along(indices, component, numbers.vector_dim, table[d])
        if along is None:
            continue
        dim = along + (along >= numbers.vector_dim)
        if dim not in numbers.beside and dim not in counts.values():
            counts[component] = dim
    return counts
