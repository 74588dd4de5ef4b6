"""Sorts one of whose operands counts the places of the elements: argsort, as JAX writes it."""

from __future__ import annotations

from typing import Any

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import ir, made_by
from dtensor.dialect.names import PLACES
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.columnsort import sorted_dimension
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.rule import OpInfo


def mark_places(sort: ir.Operation) -> None:
    """Say which operand of a sort counts the places along the dimension that is sorted."""
    info = OpInfo.of(sort)
    if info is None or not info.operand_shapes[0]:
        return
    dim = sorted_dimension(info)
    for k, value in enumerate(sort.operands):
        if _counts(value, dim, info.operand_shapes[0][dim], info.operand_elements[k]):
            sort.attributes[PLACES] = index_attr(k)
            return


def _counts(value: ir.Value[Any], dim: int, size: int, element: str) -> bool:
    """Whether each element is its index along a dimension."""
    maker = made_by("stablehlo.iota", value)
    if maker is None:
        return False
    kind, bits = element_kind(element)
    is_counted = kind in ("signed", "unsigned") and size <= 1 << (bits - (kind == "signed"))
    return is_counted and integer(maker.attributes["iota_dimension"]) == dim
