"""Reading attributes, which the bindings hand out untyped; constants above all."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from dtensor.dialect.attributes import entries_of
from dtensor.dialect.mlir import Value, ir, made_by, maker_of, stablehlo
from dtensor.dialect.names import DOT_NUMBERS, PRECISION, SIZE
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import element_bytes

CONSTANT = "stablehlo.constant"
BACKEND_CONFIG = "mhlo.backend_config"
SLICE_NUMBERS = ("start_indices", "limit_indices", "strides")
PAD_NUMBERS = ("edge_padding_low", "edge_padding_high", "interior_padding")
_SPREADS = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")


def shape_of(value: Value) -> list[int]:
    """The shape of a value."""
    return list(ir.RankedTensorType(value.type).shape)


def element_of(value: Value) -> str:
    """The element type of a value, as written."""
    return str(ir.RankedTensorType(value.type).element_type)


def itemsize(value: Value) -> float:
    """Bytes of one element of a value."""
    return element_bytes(element_of(value))


def elements_of(value: Value) -> int:
    """How many elements a value has."""
    return math.prod(shape_of(value))


def size_bytes(value: Value) -> float:
    """Bytes of a value."""
    return elements_of(value) * itemsize(value)


def is_marked(op: ir.Operation) -> bool:
    """Whether an operation says more than StableHLO's own attributes: that must not be lost."""
    return any("." in name for name in op.attributes)


def constant_of(value: Value) -> ir.Operation | None:
    """The constant that a value is, in another shape perhaps; None if it is none."""
    maker = maker_of(value)
    while maker is not None and maker.name in _SPREADS:
        maker = maker_of(maker.operands[0])
    return maker if maker is not None and maker.name == CONSTANT else None


def splat_of(value: Value) -> ir.Attribute | None:
    """The number that a value repeats, if a constant says it."""
    maker = constant_of(value)
    constant = None if maker is None else constant_attribute(maker)
    return None if constant is None or not constant.is_splat else constant.get_splat_value()


def splat_number(value: Value) -> float | None:
    """The real number that a value repeats, if a constant says it; 1 of true."""
    scalar = splat_of(value)
    if isinstance(scalar, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return float(scalar.value)
    return None


def fill_number(value: Value) -> float | None:
    """As `splat_number`, of what is converted too, if exactly; `jnp.pad` converts an integer 0."""
    convert = made_by("stablehlo.convert", value)
    if convert is None:
        return splat_number(value)
    number = splat_number(convert.operands[0])
    is_exact = number is not None and (number == 0 or math.isinf(number))
    return number if is_exact else None  # others may be rounded


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


def repeat_alike(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two constants repeat one number, of any type and as often as they may."""
    values = constant_attribute(one), constant_attribute(other)
    if values[0] is None or values[1] is None:
        written = _complex_splat(one)
        return written is not None and written == _complex_splat(other)
    if not (values[0].is_splat and values[1].is_splat):
        return False
    return bool(values[0].get_splat_value() == values[1].get_splat_value())


def constant_numbers(operation: ir.Operation) -> NDArray[np.inexact] | None:
    """The numbers in a constant, one if all are equal; None where the bindings cannot read them."""
    value = constant_attribute(operation)
    if value is None:
        real, imaginary = _complex_splat(operation) or ("", "")
        if not (_is_number(real) and _is_number(imaginary)):
            return None
        return np.array(complex(float(real), float(imaginary)))
    if value.is_splat:
        scalar = value.get_splat_value()
        return np.array(scalar.value, float) if isinstance(scalar, ir.FloatAttr) else None
    try:
        numbers = np.asarray(value)
    except TypeError:
        return None  # jaxlib reads the elements of bfloat16 and narrower in splats alone
    return numbers if numbers.dtype.kind == "f" else None


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


def identity_of(operation: ir.Operation) -> tuple[Reduction, ...]:
    """The reductions of which every element of this constant is the identity.

    A shard that holds it adds nothing, so such a constant is a partial value as it stands.
    """
    element = element_of(operation.results[0])
    scalar = _splat_scalar(operation, element)
    if scalar is None:
        return ()
    return tuple(kind for kind in reductions_of(element) if kind.identity(element) == scalar)


def is_identity(value: Value, kind: Reduction) -> bool:
    """Whether a value is a constant that is the identity of a reduction everywhere."""
    maker = constant_of(value)
    return maker is not None and kind in identity_of(maker)


def _splat_scalar(operation: ir.Operation, element: str) -> float | int | None:
    """The number that a constant repeats; None if it repeats none, or one that is not real."""
    value = constant_attribute(operation)
    if value is None:
        real, imaginary = _complex_splat(operation) or ("", "")
        is_real = _is_number(real) and _is_number(imaginary) and float(imaginary) == 0
        return float(real) if is_real else None
    if not value.is_splat:
        return None
    scalar = value.get_splat_value()
    if isinstance(scalar, ir.FloatAttr):
        return scalar.value
    text = str(scalar)
    return int(text.startswith("true")) if element == "i1" else int(text.partition(" ")[0])


def _is_number(written: str) -> bool:
    """Whether a written float is finite; infinities and NaNs are written as bits, `0xFF800000`."""
    return bool(written) and not written.startswith("0x")


def integers(attribute: ir.Attribute) -> list[int]:
    """The numbers of `array<i64: ...>`."""
    numbers = ir.DenseI64ArrayAttr(attribute)
    return [numbers[i] for i in range(len(numbers))]  # its iterator ends slowly, in an exception


def true_size(op: ir.Operation, size: int) -> int:
    """How many elements of a dimension of `size` are no padding, as far as an op says."""
    return integer(op.attributes[SIZE]) if SIZE in op.attributes else size


def slice_numbers(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    """Where a slice starts, where it ends, and its strides, a number of each per dimension."""
    starts, limits, strides = [integers(op.attributes[name]) for name in SLICE_NUMBERS]
    return starts, limits, strides


def pad_numbers(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    """What a pad adds before, behind and between elements, a number of each per dimension."""
    lows, highs, gaps = [integers(op.attributes[name]) for name in PAD_NUMBERS]
    return lows, highs, gaps


def spread_dims(op: ir.Operation) -> list[int]:
    """Which dimension of its result each dimension of a broadcast's operand becomes."""
    return integers(op.attributes["broadcast_dimensions"])


def dot_sides(op: ir.Operation) -> list[tuple[list[int], list[int]]]:
    """Of each operand of a product the dimensions that the result keeps of both, and those summed.

    In both lists the first of one operand goes with the first of the other, and so on.
    """
    dot = stablehlo.DotDimensionNumbers(op.attributes[DOT_NUMBERS])
    return [
        (list(dot.lhs_batching_dimensions), list(dot.lhs_contracting_dimensions)),
        (list(dot.rhs_batching_dimensions), list(dot.rhs_contracting_dimensions)),
    ]


def dot_pairs(op: ir.Operation) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The same in pairs, a dimension of each operand: those that the result keeps, those summed."""
    batching, summed = zip(*dot_sides(op), strict=True)
    return [*zip(*batching, strict=True)], [*zip(*summed, strict=True)]


def integer(attribute: ir.Attribute) -> int:
    """The number of `n : i64`."""
    return int(ir.IntegerAttr(attribute).value)


def backend_config(call: ir.Operation) -> dict[str, ir.Attribute]:
    """What JAX tells the library that a custom call calls."""
    given = call.attributes
    return entries_of(given[BACKEND_CONFIG]) if BACKEND_CONFIG in given else {}


def precision_of(product: ir.Operation) -> str:
    """The elements as which a product of matrices takes those of f32, as peaks name them."""
    if "algorithm" in product.attributes:
        taken = re.search(r"lhs_precision_type = (\w+)", str(product.attributes["algorithm"]))
        known = {"f32": "f32_highest", "tf32": "f32", "bf16": "bf16", "f16": "f16"}
        return known.get(taken[1], "f32") if taken else "f32"
    is_precise = PRECISION in product.attributes and "HIGHEST" in str(product.attributes[PRECISION])
    return "f32_highest" if is_precise else "f32"


def products_of(product: ir.Operation) -> int:
    """How many products of narrower elements its algorithm makes of one."""
    if "algorithm" not in product.attributes:
        return 1
    found = re.search(r"num_primitive_operations = (\d+)", str(product.attributes["algorithm"]))
    return int(found[1]) if found else 1


def direction_of(compare: ir.Operation) -> str:
    """EQ, NE, LT, LE, GT or GE."""
    return str(compare.attributes["comparison_direction"]).removesuffix(">").split()[-1]


def convolution_numbers(op: ir.Operation) -> stablehlo.ConvDimensionNumbers:
    """Which dimensions of a convolution's operands and result are spatial, and which not."""
    return stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
