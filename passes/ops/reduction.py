"""Reductions: what combines the parts of a value, and all that is known of each."""

from __future__ import annotations

from array import array
from enum import StrEnum

from dtensor.dialect.attributes import number_attr
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.elements import EXACT, INEXACT, INTEGERS, element_kind

# Largest finite value of the float types that have no infinity.
_FINITE_MAX = {
    "f8E4M3FN": 448.0,
    "f8E4M3FNUZ": 240.0,
    "f8E4M3B11FNUZ": 30.0,
    "f8E5M2FNUZ": 57344.0,
}

FLOAT_BITS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}  # of what sums are made in


def sum_element(element: str, asked: str | None) -> str:
    """The element type in which devices add up parts of a sum of this type.

    A float16 ends at 65504, which parts may exceed though their sum does not: they are float32,
    unless something is asked for.
    """
    wide = asked or ("f32" if element == "f16" else element)
    is_wider = FLOAT_BITS.get(wide, 0) > FLOAT_BITS.get(element, 64)
    return wide if is_wider else element


class Reduction(StrEnum):
    """A way to combine parts; its value is how layouts write it, as in `dialect.layout.REDUCTIONS`.

    Attributes:
        op: the element-wise operation that combines two parts.
        elements: the kinds of elements whose parts it may combine. Truth values have `and` and `or`
            alone: their sum is `or`, their product and minimum are `and`.
        idempotent: whether x op x = x, so that a complete value is a part as it stands.
        rounds: whether combining floats rounds, so that a wider type makes it more exact.
        is_bitwise: whether it works on bits. XLA reduces across devices by sum, product, minimum
            and maximum, and truth values by `and` and `or`, but not the bits of integers.
    """

    op: str
    elements: tuple[str, ...]
    idempotent: bool
    rounds: bool
    is_bitwise: bool

    SUM = "sum", "stablehlo.add", (*INTEGERS, *INEXACT), False, True, False
    MAX = "max", "stablehlo.maximum", (*INTEGERS, "float"), True, False, False
    MIN = "min", "stablehlo.minimum", (*INTEGERS, "float"), True, False, False
    PROD = "prod", "stablehlo.multiply", (*INTEGERS, *INEXACT), False, True, False
    AND = "and", "stablehlo.and", EXACT, True, False, True
    OR = "or", "stablehlo.or", EXACT, True, False, True

    def __new__(
        cls,
        text: str,
        op: str,
        elements: tuple[str, ...],
        idempotent: bool,
        rounds: bool,
        is_bitwise: bool,
    ) -> Reduction:
        """A reduction written `text`, and the attributes."""
        made = str.__new__(cls, text)
        made._value_ = text
        made.op, made.elements = op, elements
        made.idempotent, made.rounds, made.is_bitwise = idempotent, rounds, is_bitwise
        return made

    @staticmethod
    def named(text: str) -> Reduction:
        """The reduction that layouts write as `text`."""
        return _BY_TEXT[text]

    @classmethod
    def of_op(cls, name: str, element: str) -> Reduction | None:
        """The reduction that the operation `name` makes of two elements; None if it makes none."""
        found = _BY_OP.get(name)
        return None if found is None else found.on(element)

    def on(self, element: str) -> Reduction:
        """What it is on elements of a type: sums and maxima of truth values saturate."""
        if element != "i1":
            return self
        return (
            Reduction.OR if self in (Reduction.SUM, Reduction.MAX, Reduction.OR) else Reduction.AND
        )

    def crosses_devices(self, element: str) -> bool:
        """Whether XLA reduces elements of this type across devices by it."""
        return not self.is_bitwise or element == "i1"

    def identity(self, element: str) -> float | int:
        """The scalar that changes nothing: of every integer, float and complex type it may combine.

        A sum of floats has -0 for it, of complex numbers in both parts: 0 would make 0 of -0.

        Raises:
            KeyError: it has no identity among elements of this type.
        """
        kind, bits = element_kind(element)
        if kind in (*INEXACT, "other"):
            high = _FINITE_MAX.get(element, float("inf"))
            scalars = {Reduction.SUM: -0.0, Reduction.PROD: 1.0}
            if kind != "complex":
                scalars |= {Reduction.MAX: -high, Reduction.MIN: high}
            return scalars[self]
        low, high_int = 0, (1 << bits) - 1
        if kind == "signed":
            low, high_int = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return {
            Reduction.SUM: 0,
            Reduction.OR: 0,
            Reduction.PROD: 1,
            Reduction.AND: -1 if kind == "signed" else high_int,
            Reduction.MAX: low,
            Reduction.MIN: high_int,
        }[self]

    def identity_attr(self, tensor: ir.Type) -> ir.Attribute:
        """A splat of its identity: what a device without a part holds.

        Args:
            tensor: a ranked tensor type of booleans, integers, floats or complex numbers.
        """
        element = ir.RankedTensorType(tensor).element_type
        identity = self.identity(str(element))
        if isinstance(element, ir.ComplexType):
            code = "f" if str(element.element_type) == "f32" else "d"
            imaginary = identity if self is Reduction.SUM else 0.0
            return ir.DenseElementsAttr.get(array(code, [identity, imaginary]), type=tensor)
        return ir.DenseElementsAttr.get_splat(tensor, number_attr(element, identity))


_BY_TEXT = {reduction.value: reduction for reduction in Reduction}
_BY_OP = {reduction.op: reduction for reduction in Reduction}


def reductions_of(element: str) -> tuple[Reduction, ...]:
    """The reductions by which parts of this element type may be combined."""
    return _BY_KIND[element_kind(element)[0]]


_BY_KIND = {
    kind: tuple(reduction for reduction in Reduction if kind in reduction.elements)
    for kind in (*EXACT, *INEXACT, "other")
}
