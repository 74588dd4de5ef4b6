"""What element types mean for parts: which conversions keep sums, products and order."""

from __future__ import annotations

from functools import cache

# Exponent and mantissa bits; a format holds every value of another if it has no fewer of both.
_FLOATS = {
    "f8E5M2": (5, 2),
    "f8E4M3": (4, 3),
    "f8E4M3FN": (4, 3),
    "f8E3M4": (3, 4),
    "f16": (5, 10),
    "bf16": (8, 7),
    "f32": (8, 23),
    "f64": (11, 52),
}


INTEGERS = ("signed", "unsigned")
EXACT = ("bool", *INTEGERS)
INEXACT = ("float", "complex")  # these round


@cache
def element_kind(element: str) -> tuple[str, int]:
    """Kind and bits of an element type.

    Returns:
        `("bool", 1)`, `("signed", n)`, `("unsigned", n)`, `("float", n)`, `("complex", n)` with the
        bits of one component, or `("other", 0)`.
    """
    if element == "i1":
        return "bool", 1
    if element.startswith("complex<"):
        return "complex", element_kind(real_element(element))[1]
    if element in _FLOATS:
        return "float", 1 + sum(_FLOATS[element])
    for prefix, kind in (("ui", "unsigned"), ("i", "signed"), ("si", "signed")):
        digits = element.removeprefix(prefix)
        if digits != element and digits.isdigit():
            return kind, int(digits)
    return "other", 0


def holds_places(element: str, size: int) -> bool:
    """Whether a type of elements has a number for each place of a dimension."""
    kind, bits = element_kind(element)
    return kind in INTEGERS and size <= 1 << (bits - (kind == "signed"))


def real_element(element: str) -> str:
    """The element type of the parts of complex numbers; of others their own."""
    return element.removeprefix("complex<").removesuffix(">")


def float_bits(element: str) -> tuple[int, int]:
    """Bits of the exponent and of the mantissa of floats."""
    return _FLOATS[element]


def holds_floats(narrow: str, wide: str) -> bool:
    """Whether float type `wide` has every value of float type `narrow`."""
    if narrow == wide:
        return element_kind(narrow)[0] == "float"
    if narrow not in _FLOATS or wide not in _FLOATS:
        return False
    return all(a <= b for a, b in zip(_FLOATS[narrow], _FLOATS[wide], strict=True))


def reaches_integers(element: str, integer: str) -> bool:
    """Whether every integer of a type is within the range of a float type, if rounded."""
    kind, bits = element_kind(integer)
    if element not in _FLOATS or kind not in EXACT:
        return False
    largest = (1 << (_FLOATS[element][0] - 1)) - 1  # its exponent
    return bits - (kind == "signed") <= largest


def keeps_sums(before: str, after: str) -> bool:
    """Whether converting parts and adding is adding and converting.

    Floats: only to a type that holds them all, for otherwise each part is rounded before the sum.
    Integers: only to no more bits, where both ways are exact modulo 2^bits. Never between the two.
    """
    (kind, bits), (new_kind, new_bits) = element_kind(before), element_kind(after)
    if kind in INTEGERS and new_kind in INTEGERS:
        return new_bits <= bits
    if kind in INEXACT and new_kind in INEXACT:
        return holds_floats(real_element(before), real_element(after))
    return False


def keeps_products(before: str, after: str) -> bool:
    """Whether converting parts and multiplying is multiplying and converting."""
    if element_kind(before)[0] == "complex" and element_kind(after)[0] == "float":
        return False  # the real part of a product is not the product of the real parts
    return keeps_sums(before, after)


def keeps_order(before: str, after: str) -> bool:
    """Whether converting keeps which of two values is the greater, exactly.

    To a type that holds every value. Narrowing integers wrap; narrowing floats is left out as it
    is for sums, though it keeps the order.
    """
    (kind, bits), (new_kind, new_bits) = element_kind(before), element_kind(after)
    if kind == "float":
        return new_kind == "float" and holds_floats(before, after)
    if kind == "bool":
        return new_kind in (*EXACT, "float") and new_bits > (new_kind == "signed")
    if kind == new_kind and kind in INTEGERS:
        return new_bits >= bits
    return kind == "unsigned" and new_kind == "signed" and new_bits > bits


def keeps_bits(before: str, after: str) -> bool:
    """Whether converting treats each bit by itself: integers to integers, but not to `i1`.

    Truncation drops bits, widening copies zeros or the sign bit. `i1` is "not zero", which mixes
    the bits (though `or` would pass).
    """
    source, target = element_kind(before)[0], element_kind(after)[0]
    return before == after or (source in EXACT and target in EXACT and target != "bool")


def moved_as(element: str) -> str:
    """The integers that elements, whole bytes, can be moved as; others are moved as they are."""
    kind, bits = element_kind(element)
    return f"i{bits}" if kind in (*INTEGERS, "float") and bits >= 8 else element


def joins(element: str) -> bool:
    """Whether arrays may be put side by side: XLA for CPUs fails where elements share bytes."""
    return element == "i1" or element_kind(element)[1] >= 8
