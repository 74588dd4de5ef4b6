"""Forms that say in several operations, or in a loop, what could be said in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from dtensor.dialect.diagnostics import LocatedError, error, from_mlir
from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.functions import main_function
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CUSTOM_CALL, WHILE
from dtensor.passes.rewriting.names import (
    CONCATENATE,
    CONVOLUTION,
    GATHER,
    PAD,
    REDUCE,
    REDUCE_WINDOW,
    SCATTER,
    SORT,
)
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.table import Rewrite, RewritesPass, rewritten


def _first(file: str, function: str, name: str) -> Rewrite:
    return Rewrite(file, function, frozenset({name}), "first")


def _last(file: str, function: str, name: str) -> Rewrite:
    return Rewrite(file, function, frozenset({name}), "last")


@dataclass(frozen=True)
class FindFormsPass(RewritesPass):
    """Finds searches, orders, scans and factorisations that are written in several operations.

    What StableHLO says in other operations too, `einsum`, `torch_index_select`, the batch_norm
    operations and CHLO's that broadcast, is said in those first. A reduce of several arrays that
    have nothing to do with one another is several, and one lists its dimensions in their order.
    Then it runs these rewrites in this order; each stands in the file of `passes/forms/` whose name
    it has.
    """

    name: ClassVar[str] = "dtensor-find-forms"
    TABLE: ClassVar = (
        Rewrite("joined", "carry_parts", frozenset({CONCATENATE}), is_repeated=True),  # one vector
        Rewrite("associative_scans", "replace_scans", frozenset({PAD})),  # which pads weave
        # By which dimensions layouts split.
        _first("reversed_loops", "replace_loop", WHILE),
        _first("chunked", "replace_loop", WHILE),
        _first("carried_places", "replace_lookup", GATHER),
        _first("owned_rows", "replace_rows", GATHER),
        _first("orders", "replace_order", SORT),
        _first("tall_svd", "replace_svd", CUSTOM_CALL),
        # And others.
        _last("partial_sorts", "replace_sort", SORT),
        _last("factors", "replace_qr", CUSTOM_CALL),
        _last("counted_rows", "replace_counts", GATHER),
        _last("counted_rows", "replace_counts", SCATTER),
        _last("gathered", "replace_products", GATHER),
        _last("searches", "replace_search", WHILE),
        _last("reversed_windows", "replace_windows", REDUCE_WINDOW),
        _last("reversed_reductions", "replace_reduction", REDUCE),
        _last("reversed_windows", "replace_convolution", CONVOLUTION),
        _last("invariant", "hoist", WHILE),
    )

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        main = main_function(module)
        names = {name for name in state.operations(main).names if opdef(name).anew is not None}
        rewritten(main, state, names, partial(_write_anew, sorted(names)))
        self.rewrite(main, state)


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
