"""Rows of which every shard has a part, dealt: each shard gets all parts of its share of the rows.

One all_to_all brings them there. What each shard makes of its rows is gathered, unless just these
are wanted of it: `dtensor-optimize-collectives` drops a gather of which a shard keeps its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.dim import WHOLE, Dim, canonical_digits
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value
from dtensor.passes.creation import with_sizes
from dtensor.passes.expansion.context import ExpansionContext


@dataclass(frozen=True)
class DealtRows:
    """How rows are dealt.

    Attributes:
        layout: the layout in which they are.
        whole: the layout that has all rows, and all of each, on every shard.
        dim: the dimension that is dealt.
        given: how many rows a shard has parts of, along it.
        dealt: how many there are with some more, so that the shards divide them.
    """

    layout: Layout
    whole: Layout
    dim: int
    given: int
    dealt: int

    @staticmethod
    def of(layout: Layout, shape: Sequence[int], dim: int) -> DealtRows | None:
        """Those of an array of which a dimension is split; None if there are no rows.

        Args:
            layout: that of the parts.
            shape: the global one; the split dimension may be of another size.
            dim: the split dimension.
        """
        word, local, found = layout.dims[dim], layout.local_shape(shape), []
        dims = [WHOLE if d == dim else other for d, other in enumerate(layout.dims)]
        whole = Layout.of(dims, layout.mesh)
        for d, other in enumerate(layout.dims):
            if d != dim and other.is_contiguous and local[d]:
                more = Dim(canonical_digits((*other.axes, *word.axes)))
                after = Layout.of([*dims[:d], more, *dims[d + 1 :]], layout.mesh)
                count = -(-local[d] // word.split) * word.split
                found.append(DealtRows(after, whole, d, local[d], count))
        return min(found, key=lambda rows: rows.share, default=None)

    @property
    def share(self) -> float:
        """How much more there is dealt than there are rows, 1.0 where the shards divide them."""
        return self.dealt / self.given

    def deal(
        self, ctx: ExpansionContext, part: Value, before: Layout, shape: Sequence[int]
    ) -> Value:
        """The shard's share of the rows; `shape` is the global one of the parts."""
        part = ctx.lengthened(part, self.dim, 0, self.dealt)
        return ctx.relayout(part, before, self.layout, self._longer(shape))

    def collect(self, ctx: ExpansionContext, share: Value, shape: Sequence[int]) -> Value:
        """All rows of what each shard made of its share; `shape` is the global one of that."""
        rows = ctx.relayout(share, self.layout, self.whole, self._longer(shape))
        return ctx.cut(rows, self.dim, 0, self.given)

    def _longer(self, shape: Sequence[int]) -> tuple[int, ...]:
        return with_sizes(shape, self.dim, self.dealt * self.whole.dims[self.dim].split)
