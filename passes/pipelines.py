"""The named pipelines: which passes run, in which order, and why each is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Stage:
    """One pass of a pipeline: its text, and the reason it is there."""

    text: str
    reason: str


_PREPARE = (
    Stage(
        "dtensor-keep-annotations",
        "equal constants become one, and calls go, whatever is annotated on them",
    ),
    Stage("inline", "rules see what is called; JAX emits one private function per inner jit"),
    Stage("dtensor-inline", "what C++ inline leaves: callees that have dtensor ops, composites"),
    Stage("symbol-dce", "functions that nothing calls any more need no layouts"),
    Stage("canonicalize", "folds what JAX wrote long-hand, so that it need not be laid out"),
    Stage(
        "func.func(stablehlo-canonicalize-dynamism)",
        "shapes that are operands but constant, as other frameworks write them, are attributes",
    ),
    Stage("cse", "equal operations get one layout, and one relayout"),
)

_GLOBAL = (
    Stage("dtensor-import", "one form of mesh and annotations; an id on every operation"),
    Stage("dtensor-find-forms", "searches, orders and factorisations that JAX writes long-hand"),
    Stage("dtensor-split-transforms", "a dimension may be split while another is transformed"),
    Stage("dtensor-fuse-cuts", "rolls and stencils in one piece, of sizes that divide"),
    Stage("dtensor-pad-uneven", "so that all layouts divide what they split"),
    Stage("dtensor-propagate", "a layout for every value"),
    Stage("dtensor-verify-plan", "what was decided is what the rules derive"),
    Stage("dtensor-insert-relayouts", "operands agree with the strategy chosen"),
    Stage("dtensor-optimize-relayouts", "relayouts move, merge and vanish in global shapes"),
)

_LOCAL = (
    Stage("dtensor-verify-plan", "and so is what moving the relayouts left of it"),
    Stage("dtensor-expand", "one device's shapes; relayouts become collectives"),
    Stage("dtensor-join-transforms", "Fourier transforms taken apart for nothing are one again"),
    Stage("dtensor-widen-reductions", "sums in the element type that was asked for, if one was"),
    Stage("dtensor-optimize-collectives", "collectives are combined and fused"),
    Stage("dtensor-gather-again", "and some run twice, where memory is short"),
    Stage("dtensor-report-cost", "what is sent and computed, while it is known why"),
    Stage("dtensor-combine-collectives", "small arrays go in one message"),
    Stage("dtensor-lower", "collectives become StableHLO's"),
)

_TIDY = (
    Stage("canonicalize", "index arithmetic of constants folds"),
    Stage("cse", "equal slices and masks are computed once"),
    Stage("dtensor-outline", "sums that many kernels of XLA for CPUs read are computed once"),
    Stage("dtensor-report-memory", "what one device holds; refused if that is too much"),
)

PIPELINES: Final[dict[str, tuple[Stage, ...]]] = {
    "dtensor-spmd": (*_PREPARE, *_GLOBAL, *_LOCAL, *_TIDY),
    "dtensor-prepare": _PREPARE,
}

SUMMARIES: Final[dict[str, str]] = {
    "dtensor-spmd": "the whole line: a program of global shapes becomes that of one device",
    "dtensor-prepare": "what dtensor-import needs done before it",
}


def pipeline_text(name: str) -> str:
    """A named pipeline as the text that `--pass-pipeline` takes."""
    return f"builtin.module({', '.join(stage.text for stage in PIPELINES[name])})"
