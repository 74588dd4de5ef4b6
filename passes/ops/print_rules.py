"""Rules as text, for tests and for whoever asks what the compiler knows of an op."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.diagnostics import diagnostic
from dtensor.dialect.mlir import ir, ops_of
from dtensor.dialect.names import FFT, GATHER_DOT, QR, RANKED, SCAN, SEARCH, SPLICE
from dtensor.passes.base import Pass, PassState
from dtensor.passes.ops.rule import OpInfo, OpRule
from dtensor.passes.ops.table import rule_of
from dtensor.passes.program import holds_program

_WITH_BLOCKS = ("func.func", "stablehlo.while", "stablehlo.case", "stablehlo.if")
_PROGRAM = (FFT, GATHER_DOT, QR, RANKED, SCAN, SEARCH, SPLICE)
_NO_RULE = ("func.func", "func.return", "stablehlo.return", "stablehlo.while", "stablehlo.case")


@dataclass(frozen=True)
class PrintRulesPass(Pass):
    """Writes the rule of each op to standard error, as a remark at the op; changes nothing.

    A letter is a factor, `a:(6)4` its 4 combinations after the first 6, `3 a` three blocks of it,
    `a order` or `a window` one that an algorithm splits, `*` a dimension that must be whole. Then
    what is reduced, which parts pass (`_` is complete), and why dimensions are whole.
    """

    name: ClassVar[str] = "dtensor-print-rules"

    def run(self, module: ir.Module, state: PassState) -> None:
        for op in _operations(module.body):
            is_ours = op.name.startswith("dtensor.") and op.name not in _PROGRAM
            if is_ours or op.name in _NO_RULE or op.name == "stablehlo.if":
                continue
            info = OpInfo.of(op)
            rule = rule_of(info) if info is not None else None
            text = f"{op.name}: {'no rule' if rule is None else rule_text(rule)}"
            print(diagnostic(op, text, "remark"), file=sys.stderr)


def rule_text(rule: OpRule) -> str:
    """All of a rule, in one line."""
    parts = [str(rule).strip()]
    passes = [f"{_kinds(p.operands)} -> {_kinds(p.results)}".strip() for p in rule.passes]
    if passes:
        parts.append(f"passes {' | '.join(passes)}")
    if rule.is_free:
        parts.append("free")
    for (tensor, dim), reason in rule.why_whole.items():
        if rule.map_of(tensor, dim) is not None:
            continue  # an algorithm may split it
        what = f"operand {tensor}" if tensor >= 0 else f"result {~tensor}"
        parts.append(f"dimension {dim} of {what} {reason}")
    return "; ".join(parts)


def _kinds(kinds: tuple[str | None, ...]) -> str:
    return ", ".join(kind or "_" for kind in kinds)


def _operations(block: ir.Block) -> Iterator[ir.Operation]:
    for op in ops_of(block):
        yield op
        if op.name in _WITH_BLOCKS or holds_program(op, op.name):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _operations(inner)
