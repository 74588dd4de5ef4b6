"""Scalars that a loop counts, in all of its trips at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dtensor.dialect.mlir import ir

Numbers = NDArray[Any]

_FOUND_BY: Final[dict[str, Callable[..., Any]]] = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.negate": np.negative,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.select": np.where,
    "stablehlo.convert": np.copy,
    "stablehlo.reshape": np.copy,
    "stablehlo.broadcast_in_dim": np.copy,
}
_COMPARED: Final = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def of_scalars(op: ir.Operation, given: Sequence[Numbers]) -> Numbers | None:
    """What an operation on scalars gives in every trip; None where that is not known.

    Args:
        op: the operation.
        given: its operands, of their types, an element for each trip.
    """
    compute = _FOUND_BY.get(op.name)
    if op.name == "stablehlo.compare":
        text = str(op.attributes["comparison_direction"])
        compute = next(found for name, found in _COMPARED.items() if f" {name}>" in text)
    return compute(*given) if compute is not None and given else None
