"""The verifier as a pass, to stand between others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import ir
from dtensor.dialect.verify import verify_all
from dtensor.passes.base import Pass, PassState


@dataclass(frozen=True)
class VerifyPass(Pass):
    """Checks the module: MLIR's rules, and those of the dtensor dialect."""

    name: ClassVar[str] = "dtensor-verify"

    def run(self, module: ir.Module, state: PassState) -> None:
        verify_all(module)
