"""The identity element of each reduction: what a device without a part holds."""

from __future__ import annotations

from array import array

from dtensor.dialect.mlir import ir

# Largest finite value of the float types that have no infinity.
_FINITE_MAX = {
    "f8E4M3FN": 448.0,
    "f8E4M3FNUZ": 240.0,
    "f8E4M3B11FNUZ": 30.0,
    "f8E5M2FNUZ": 57344.0,
}


def identity_attr(reduction: str, tensor: ir.Type) -> ir.Attribute:
    """A splat constant of type `tensor` that leaves any value unchanged under `reduction`.

    Args:
        reduction: "sum", "max", "min", "prod", "and" or "or".
        tensor: a ranked tensor type of booleans, integers, floats or complex numbers; "max" and
            "min" have no identity among complex numbers.
    """
    element = ir.RankedTensorType(tensor).element_type
    if isinstance(element, ir.ComplexType):
        assert reduction in ("sum", "prod"), f"no identity of {reduction} for {element}"
        real = 1.0 if reduction == "prod" else 0.0
        code = "f" if str(element.element_type) == "f32" else "d"
        return ir.DenseElementsAttr.get(array(code, [real, 0.0]), type=tensor)
    if isinstance(element, ir.IntegerType):
        scalar: ir.Attribute = ir.IntegerAttr.get(element, _integer(reduction, element))
    else:
        scalar = ir.FloatAttr.get(element, _float(reduction, str(element)))
    return ir.DenseElementsAttr.get_splat(tensor, scalar)


def _integer(reduction: str, element: ir.IntegerType) -> int:
    width = int(element.width)
    if element.is_unsigned or width == 1:
        low, high = 0, (1 << width) - 1
    else:
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    number = {"sum": 0, "or": 0, "prod": 1, "and": -1, "max": low, "min": high}[reduction]
    # MLIR's bindings take an int64 and keep its low bits: 2^64 - 1 has to be written as -1.
    return number - (1 << 64) if number >= 1 << 63 else number


def _float(reduction: str, element: str) -> float:
    high = _FINITE_MAX.get(element, float("inf"))
    return {"sum": 0.0, "prod": 1.0, "max": -high, "min": high}[reduction]
