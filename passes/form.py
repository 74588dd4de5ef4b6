"""How modules are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtensor.dialect.mlir import ir


@dataclass(frozen=True)
class Form:
    """How modules are printed.

    Attributes:
        locations: with locations.
        generic: each operation in the form that all have.
        largest: elements that a constant may have to be printed whole; None is any number.
    """

    locations: bool = False
    generic: bool = False
    largest: int | None = None

    def text(self, module: ir.Module) -> str:
        """The module so, with one line end."""
        text = module.operation.get_asm(
            enable_debug_info=self.locations,
            print_generic_op_form=self.generic,
            large_elements_limit=self.largest,
        )
        return f"{str(text).rstrip()}\n"
