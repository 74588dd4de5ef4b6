"""Reading `stablehlo.constant`: are all elements equal, are they the identity of a reduction?"""

from __future__ import annotations

import math

from dtensor.dialect.mlir import ir
from dtensor.passes.ops.elements import element_kind


def constant_attribute(operation: ir.Operation) -> ir.DenseElementsAttr | None:
    """The value of a constant; None where the bindings cannot read it: complex, resources."""
    try:
        value = operation.attributes["value"]
    except TypeError:
        return None  # jaxlib has no Python class for dense complex elements
    return value if isinstance(value, ir.DenseElementsAttr) else None


def is_splat(operation: ir.Operation) -> bool:
    """Whether all elements of a constant are known to be equal."""
    value = constant_attribute(operation)
    if value is not None:
        return value.is_splat
    return _complex_splat(operation) is not None


def _complex_splat(operation: ir.Operation) -> tuple[str, str] | None:
    """Real and imaginary part, as written, of a complex splat."""
    named = operation.attributes
    for i in range(len(named)):
        text = str(named[i])  # the attribute itself cannot be touched: the process would abort
        _, found, rest = text.partition("dense<(")
        if text.startswith("NamedAttribute(value=dense<(") and found:
            real, _, imaginary = rest.partition(")")[0].partition(",")
            return real.strip(), imaginary.strip()
    return None


def identity_of(operation: ir.Operation, element: str) -> tuple[str, ...]:
    """The reductions of which every element of this constant is the identity.

    A shard that holds it adds nothing, so such a constant is a partial value as it stands.
    """
    value = constant_attribute(operation)
    if value is None:
        pair = _complex_splat(operation)
        return ("sum",) if pair is not None and all(map(_is_zero, pair)) else ()
    if not value.is_splat:
        return ()
    scalar = value.get_splat_value()
    if isinstance(scalar, ir.FloatAttr):
        return _float_identity(scalar.value)
    return _integer_identity(str(scalar), element)


def _is_zero(written: str) -> bool:
    """Whether a written float is zero; infinities and NaNs are written as bits, `0xFF800000`."""
    return not written.startswith("0x") and float(written) == 0


def _float_identity(value: float) -> tuple[str, ...]:
    if value == 0:
        return ("sum",)
    if value == 1:
        return ("prod",)
    if math.isinf(value):
        return ("max",) if value < 0 else ("min",)
    return ()


def _integer_identity(text: str, element: str) -> tuple[str, ...]:
    kind, bits = element_kind(element)
    if kind == "bool":
        return ("and",) if text.startswith("true") else ("or",)
    number = int(text.partition(" ")[0])
    low, high = (
        (0, 2**bits - 1) if kind == "unsigned" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    ones = high if kind == "unsigned" else -1
    identities = {"sum": 0, "or": 0, "prod": 1, "and": ones, "max": low, "min": high}
    return tuple(name for name, identity in identities.items() if number == identity)


def integers(attribute: ir.Attribute) -> list[int]:
    """The numbers of `array<i64: ...>`."""
    return list(ir.DenseI64ArrayAttr(attribute))


def integer(attribute: ir.Attribute) -> int:
    """The number of `n : i64`."""
    return int(ir.IntegerAttr(attribute).value)
