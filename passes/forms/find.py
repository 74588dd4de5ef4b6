"""Forms that say in several operations, or in a loop, what could be said in one."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.diagnostics import LocatedError, error, from_mlir
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.forms.chunked import replaced_loops
from dtensor.passes.forms.orders import replaced_orders
from dtensor.passes.forms.owned_rows import replaced_rows
from dtensor.passes.forms.scans import replaced_scans
from dtensor.passes.forms.tall_svd import replaced_svds
from dtensor.passes.functions import main_function
from dtensor.passes.ops.opdef import Anew
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CUSTOM_CALL, WHILE, Operations

_GATHER = "stablehlo.gather"
_SORT = "stablehlo.sort"
_PAD = "stablehlo.pad"  # a scan of associative_scan weaves elements with pads

# Rewrites of all operations of a name together, by which dimensions layouts split.
_OF_SPLIT = {
    WHILE: replaced_loops,
    _GATHER: replaced_rows,
    _SORT: replaced_orders,
    CUSTOM_CALL: replaced_svds,
}
# Rewrites of one operation after another: the file and the function, read once one is met.
_FORMS = (
    (_SORT, "ranks", "replaced_sort"),
    (CUSTOM_CALL, "factors", "replaced_qr"),
    (_GATHER, "counted_rows", "replaced_counts"),
    ("stablehlo.scatter", "counted_rows", "replaced_counts"),
    (_GATHER, "gathered", "replaced_products"),
    (WHILE, "searches", "replaced_search"),
    ("stablehlo.reduce_window", "turned_windows", "replaced_windows"),
    ("stablehlo.convolution", "turned_windows", "replaced_convolution"),
)


@dataclass(frozen=True)
class FindFormsPass(Pass):
    """Finds searches, orders, scans and factorisations that are written in several operations.

    A sort of which one operand counts the places of the elements says so: where elements are equal
    it decides, and nothing else need be sent to keep the sort stable. What is read of a sorted
    array in its order is what the sort gives, and other split arrays are sorted with it. A loop
    that bisects a table for many queries becomes a `dtensor.search`, in which each shard of the
    table looks by itself. Of an argsort of which a few places are read, or written in the gradient
    of a median, the elements that stand there are found and looked for.
    A sort of which a few places are read becomes `dtensor.ranked`, for which the shards only count.
    The slices, pads and sums that `jax.lax.associative_scan` is become one `dtensor.scan`; those of
    its gradient, where sums and products combine elements, one that goes the other way.
    Windows over what was reversed, `jnp.cumsum(x[::-1])[::-1]`, walk from the array's other end,
    and so does the kernel of a convolution.
    A value that windows start from, and that changes their sum, is added to the sum instead.
    The two calls of a library that a QR of a tall matrix is become one `dtensor.qr`.
    The singular values and vectors of a matrix whose rows, or columns, are split are found of R
    of its QR.
    A gather or a scatter whose index vectors count the rows, `x[jnp.arange(n), place]`, walks the
    rows together with the other indices.
    What is computed of rows that a gather picks from a table, split by layouts given, and is
    reduced over the indices then, attention to pages of a cache say, is computed by each shard of
    its own rows, if less is sent so. A gather that products alone read becomes one
    `dtensor.gather_dot` with each of them: the shards of the table multiply what they own.
    A loop along a dimension that layouts given split, whose carries each trip multiplies, adds to
    or keeps between bounds, becomes loops of blocks side by side, whose totals a `dtensor.scan`
    combines; carries that others depend on, the maximum of a softmax say, come first. If trips do
    anything else to them, the blocks run one after another.
    What StableHLO says in other operations too, `einsum`, `torch_index_select`, the batch_norm
    operations and CHLO's that broadcast, is said in those. A reduce of several arrays that have
    nothing to do with one another is several.
    """

    name: ClassVar[str] = "dtensor-find-forms"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        main = main_function(module)

        ops = state.operations(main)
        anew = ops.named(*[name for name in ops.names if opdef(name).anew is not None])
        for op in anew:
            write = opdef(op.name).anew
            assert write is not None
            _note(_replaced(op, write), state)
        if anew:
            state.forget_ir()  # what stands for one may have been there before
        if _named(_PAD, main, state):
            _note(_scans(main, state), state)
        for form, replace in _OF_SPLIT.items():
            found = _named(form, main, state)
            if found:
                _note(replace(found, Shards(main, state.meshes)), state)
        for form, file, function in _FORMS:
            found = _named(form, main, state)
            if found:
                module_ = importlib.import_module(f"dtensor.passes.forms.{file}")
                for op in reversed(found):
                    _note(getattr(module_, function)(op), state)


def _note(made: Sequence[ir.Operation], state: PassState) -> None:
    for op in made:
        state.ledger.add_op(op)
    if made:
        state.forget_ir()


def _named(form: str, main: ir.Operation, state: PassState) -> list[ir.Operation]:
    return state.operations(main).named(form)


def _scans(main: ir.Operation, state: PassState) -> Sequence[ir.Operation]:
    def read_anew() -> Operations:
        state.forget_ir()
        return state.operations(main)

    return replaced_scans(state.operations(main), read_anew)


def _replaced(op: ir.Operation, anew: Anew) -> list[ir.Operation]:
    """What stands for an operation, which is erased; nothing where it stays.

    Raises:
        LocatedError: it does not give what it says, which MLIR does not check of every operation.
    """
    made: list[ir.Operation] = []
    values = anew(op, made)
    try:
        for new in made:
            new.verify()
    except ir.MLIRError as failure:
        raise LocatedError.of(from_mlir(failure)) from None
    if values:
        for result, value in zip(op.results, values, strict=True):
            if value.type != result.type:
                error(op, f"{op.name} gives {value.type}, and not {result.type} as it says")
            result.replace_all_uses_with(value)
        op.erase()
    return made
