"""Forms that say in several operations, or in a loop, what could be said in one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from dtensor.dialect.diagnostics import LocatedError, error, from_mlir
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.forms.associative_scans import replace_scans
from dtensor.passes.forms.joined import carry_parts
from dtensor.passes.functions import main_function
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CUSTOM_CALL, WHILE
from dtensor.passes.rewriting.names import CONCATENATE, SORT
from dtensor.passes.rewriting.rewriting import Rewriting

_GATHER = "stablehlo.gather"
_PAD = "stablehlo.pad"  # a scan of associative_scan weaves elements with pads

# Rewrites by which dimensions layouts split, of the first operation first: the file and the
# function, read once one of this name is met.
_OF_SPLIT = (
    (WHILE, "reversed_loops", "replace_loop"),
    (WHILE, "chunked", "replace_loop"),
    (_GATHER, "carried_places", "replace_lookup"),
    (_GATHER, "owned_rows", "replace_rows"),
    (SORT, "orders", "replace_order"),
    (CUSTOM_CALL, "tall_svd", "replace_svd"),
)
# And others, of the last operation first.
_FORMS = (
    (SORT, "partial_sorts", "replace_sort"),
    (CUSTOM_CALL, "factors", "replace_qr"),
    (_GATHER, "counted_rows", "replace_counts"),
    ("stablehlo.scatter", "counted_rows", "replace_counts"),
    (_GATHER, "gathered", "replace_products"),
    (WHILE, "searches", "replace_search"),
    ("stablehlo.reduce_window", "reversed_windows", "replace_windows"),
    ("stablehlo.reduce", "reversed_reductions", "replace_reduction"),
    ("stablehlo.convolution", "reversed_windows", "replace_convolution"),
    (WHILE, "invariant", "hoist"),
)


@dataclass(frozen=True)
class FindFormsPass(Pass):
    """Finds searches, orders, scans and factorisations that are written in several operations.

    Where a loop carries one vector that is joined of several arrays, of which some are split, as
    `jax.flatten_util.ravel_pytree` and `odeint` make them, it carries these arrays: what is
    computed of each element, or reduced, is computed of each array by itself.
    A sort of which one operand counts the places of the elements says so: where elements are equal
    it decides, and nothing else need be sent to keep the sort stable. What is read of a sorted
    array in its order is what the sort gives, and other split arrays are sorted with it. A loop
    that bisects a table for many queries becomes a `dtensor.search`, in which each shard of the
    table looks by itself.
    A sort of which a few places are read becomes `dtensor.ranked`, for which the shards only count.
    Of an argsort of which a few are read, or written in the gradient of a median or of quantiles,
    it says where these elements stand too.
    The slices, pads and sums that `jax.lax.associative_scan` is become one `dtensor.scan`; those of
    its gradient, where sums and products combine elements, one that goes the other way.
    Windows over what was reversed, `jnp.cumsum(x[::-1])[::-1]`, walk from the array's other end,
    and so does the kernel of a convolution. What is reduced need not be reversed before it.
    A value that windows start from, and that changes their sum, is added to the sum instead.
    The two calls of a library that a QR of a tall matrix is become one `dtensor.qr`.
    The singular values and vectors of a matrix whose rows, or columns, are split are found of R
    of its QR.
    A gather or a scatter whose index vectors count the rows, `x[jnp.arange(n), place]`, walks the
    rows together with the other indices.
    What is computed of rows that a gather picks from a table, split by layouts given, and is
    reduced over the indices then, attention to pages of a cache say, is computed by each shard of
    its own rows, if less is sent so. A gather that products alone read becomes one
    `dtensor.gather_dot` with each of them: the shards of the table multiply what they own. What a
    select puts in the place of some rows before a product is multiplied, and put there after it.
    A lookup at the largest place so far, as where the last number that is known fills what is
    missing, becomes a `dtensor.scan` that carries the row.
    A loop along a dimension that layouts given split, whose carries each trip multiplies, adds to
    or keeps between bounds, becomes loops of blocks side by side, whose totals a `dtensor.scan`
    combines; carries that others depend on, the maximum of a softmax say, come first. If trips do
    anything else to them, the blocks run one after another. Rows that a loop reads of what it wrote
    a few trips before, `y.at[i].set(f(y[i - 1]))`, are carried.
    A loop over reversed rows, `jnp.flip(lax.scan(f, c, jnp.flip(x))[1])`, takes them from the other
    end: what is computed of each row by itself is computed of rows that are not reversed. Loops
    that read what others wrote, as gradients do, are turned together, where that reverses less.
    What a loop reduces of arrays that never change in it is computed in front of it.
    What StableHLO says in other operations too, `einsum`, `torch_index_select`, the batch_norm
    operations and CHLO's that broadcast, is said in those. A reduce of several arrays that have
    nothing to do with one another is several, and one lists its dimensions in their order.
    """

    name: ClassVar[str] = "dtensor-find-forms"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        main = main_function(module)

        def rewritten(rewrite: Callable[[Rewriting], None], *names: str) -> bool:
            ops = state.operations(main)
            if ops.names.isdisjoint(names):
                return False
            function = Rewriting(main, ops, state.shards_of(main), state.ledger.add_op)
            rewrite(function)
            function.clean()
            if function.has_changed:
                state.forget_ir()
            return function.has_changed

        named = [name for name in state.operations(main).names if opdef(name).anew is not None]
        rewritten(partial(_write_anew, named), *named)
        while WHILE in state.operations(main).names and rewritten(carry_parts, CONCATENATE):
            pass  # one joined vector at a time
        rewritten(replace_scans, _PAD)
        for forms in (_OF_SPLIT, _FORMS):
            for form in forms:
                rewritten(partial(_replace, *form, forms is _FORMS), form[0])


def _replace(name: str, file: str, rewrite: str, is_reverse: bool, function: Rewriting) -> None:
    """Rewrite each operation of a name that is of a form."""
    replace = getattr(importlib.import_module(f"dtensor.passes.forms.{file}"), rewrite)
    for op in function.each(name, is_reverse=is_reverse):
        replace(op, function)


def _write_anew(names: Sequence[str], function: Rewriting) -> None:
    """Write the operations of these names as others.

    Raises:
        LocatedError: one does not give what it says, which MLIR does not check of every operation.
    """
    for op in function.each(*names):
        anew = opdef(op.name).anew
        assert anew is not None
        values = anew(op, function.made)
        try:
            for new in function.made:
                new.verify()
        except ir.MLIRError as failure:
            raise LocatedError.of(from_mlir(failure)) from None
        for result, value in zip(op.results, values, strict=False):
            if value.type != result.type:
                error(op, f"{op.name} gives {value.type}, and not {result.type} as it says")
        if values:
            function.replace(op, *values)
