"""Small arrays that a program computes of constants alone, such as the positions of a resize.

JAX writes `jax.image.resize(x, shape, "nearest")`, `table[jnp.arange(n)]` and `x[:, 3]` as a gather
whose positions are computed: of an iota, multiplied, rounded, compared. Who knows the numbers knows
where everything comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.ops.attributes import (
    constant_attribute,
    direction_of,
    integer,
    integers,
    shape_of,
    slice_numbers,
    spread_dims,
)
from dtensor.passes.ops.elements import INTEGERS, element_kind
from dtensor.passes.ops.patterns import adds
from dtensor.passes.program import never_changed

MOST_ELEMENTS = 1 << 22  # elements of an array that is computed here
_DEEPEST = 60  # operations one behind the other

Numbers = NDArray[Any]


def known_integers(value: Value) -> Numbers | None:
    """The elements of an array of integers; None where they are not known, or rounding decides.

    XLA may multiply with an inverse instead of dividing, and round a product and a sum once. So
    floats on the way are computed as written, with inverses, and in a wider type; where that makes
    a difference the integers are not known.
    """
    if _dtype(str(ir.ShapedType(value.type).element_type), False) is None:
        return None
    written = _Reader()
    found = written.read(value)
    if found is None or found.dtype.kind not in "iu" or not written.has_floats:
        return found
    for reader in (_Reader(by_inverse=True), _Reader(wide=True)):
        other = reader.read(value)
        if other is None or not np.array_equal(found, other):
            return None
    return found


def nearly_known_integers(value: Value) -> tuple[Numbers, int] | None:
    """As `known_integers`, and by how much they may differ from that where rounding decides."""
    found = known_integers(value)
    if found is not None:
        return found, 0
    readers = _Reader(), _Reader(by_inverse=True), _Reader(wide=True)
    ways = [found for reader in readers if (found := reader.read(value)) is not None]
    if len(ways) < len(readers) or ways[0].dtype.kind not in "iu" or not ways[0].size:
        return None
    apart = int(np.ptp(np.stack(ways), axis=0).max())
    return ways[0], apart + 1


def known_floats(value: Value) -> Iterator[Numbers]:
    """The elements of an array of floats, as written, with inverses, in a wider type; or nothing.

    What XLA computes may be rounded like any of them, and what sines and the like give a bit
    otherwise; nothing is decided by that.
    """
    for way in ((False, False), (True, False), (False, True)):
        reader = _Reader(*way, has_functions=True)
        found = reader.read(value)
        if found is None or found.dtype.kind != "f":
            return
        yield found


@dataclass
class _Reader:
    """One way to compute.

    Attributes:
        by_inverse: whether to multiply with inverses instead of dividing.
        wide: whether floats have more bits than the program says.
        has_functions: whether to compute what XLA may compute less or more exactly.
        has_floats: whether there were any floats.
    """

    by_inverse: bool = False
    wide: bool = False
    has_functions: bool = False
    has_floats: bool = False
    _known: dict[Value, Numbers | None] = field(default_factory=dict)
    _inexact: set[Value] = field(default_factory=set)
    _depth: int = 0

    def read(self, value: Value) -> Numbers | None:
        """The elements of a value, as they are in its type; None where they are not known."""
        if value not in self._known:
            self._depth += 1
            self._known[value] = self._computed(value) if self._depth < _DEEPEST else None
            self._depth -= 1
        return self._known[value]

    def _computed(self, value: Value) -> Numbers | None:
        op, type_ = maker_of(value), value.type
        if op is None:
            carried = never_changed(value)
            return None if carried is None else self.read(carried)
        if not isinstance(type_, ir.RankedTensorType):
            return None
        compute = _COMPUTED.get(op.name) or (self.has_functions and _FUNCTIONS.get(op.name)) or None
        dtype = _dtype(str(type_.element_type), self.wide)
        if compute is None or dtype is None or np.prod(type_.shape, dtype=float) > MOST_ELEMENTS:
            return None
        given = []
        for operand in op.operands:
            found = self.read(operand)
            if found is None:
                return None
            given.append(found)
        self.has_floats |= dtype.kind == "f"
        if op.name in _FUNCTIONS or any(operand in self._inexact for operand in op.operands):
            if not _is_safe(op, given, dtype):
                return None
            self._inexact |= {value} if dtype.kind == "f" else set()
        if self.by_inverse and op.name == _DIVIDE and dtype.kind == "f":
            compute = _times_inverse
        with np.errstate(all="ignore"):
            found = compute(op, given, dtype)
        if found is None or found.shape != tuple(type_.shape):
            return None
        return found.astype(dtype, copy=False)


def _is_safe(op: ir.Operation, given: Sequence[Numbers], dtype: np.dtype[Any]) -> bool:
    """Whether what comes of inexact numbers is the same but for rounding, however they were."""
    if op.name == "stablehlo.compare":
        most = max(1.0, *(np.abs(side).max(initial=0.0) for side in given))
        return bool(np.all(np.abs(given[0] - given[1]) > _FAR * most))
    return op.name not in _DECIDING and dtype.kind == "f"


def _dtype(element: str, wide: bool) -> np.dtype[Any] | None:
    """The numpy type in which arithmetic is that of the program, or has more bits."""
    kind, bits = element_kind(element)
    if kind == "bool":
        return np.dtype(bool)
    if kind == "float" and bits in (32, 64):
        return np.dtype({(32, False): "f4", (64, True): "g"}.get((bits, wide), "f8"))
    if kind in INTEGERS and bits >= 8:
        return np.dtype(f"{'i' if kind == 'signed' else 'u'}{bits // 8}")
    return None


# One function per operation: it, its operands, and the type of its result.

Compute = Callable[[ir.Operation, Sequence[Numbers], "np.dtype[Any]"], Numbers | None]


def _shape(op: ir.Operation) -> list[int]:
    return shape_of(op.results[0])


def _constant(op: ir.Operation, _: Sequence[Numbers], dtype: np.dtype[Any]) -> Numbers | None:
    attribute, shape = constant_attribute(op), _shape(op)
    if attribute is None:
        return None
    if attribute.is_splat:
        scalar: Any = attribute.get_splat_value()
        return np.full(shape, scalar.value, dtype)
    if not isinstance(attribute, ir.DenseIntElementsAttr | ir.DenseFPElementsAttr):
        return None
    if dtype.kind == "b":
        return np.array([attribute[i] for i in range(len(attribute))], dtype).reshape(shape)
    return np.array(attribute).astype(dtype).reshape(shape)


def _iota(op: ir.Operation, _: Sequence[Numbers], dtype: np.dtype[Any]) -> Numbers:
    shape, dim = _shape(op), integer(op.attributes["iota_dimension"])
    row = np.arange(shape[dim]).astype(dtype)
    return np.broadcast_to(row.reshape([-1 if d == dim else 1 for d in range(len(shape))]), shape)


def _broadcast(op: ir.Operation, given: Sequence[Numbers], _: np.dtype[Any]) -> Numbers:
    shape, dims = _shape(op), spread_dims(op)
    sizes = [1] * len(shape)
    for d, size in zip(dims, given[0].shape, strict=True):
        sizes[d] = size
    # its dimensions may come in another order
    return np.broadcast_to(given[0].transpose(np.argsort(dims)).reshape(sizes), shape)


def _slice(op: ir.Operation, given: Sequence[Numbers], _: np.dtype[Any]) -> Numbers:
    return given[0][tuple(map(slice, *slice_numbers(op)))]


def _convert(_: ir.Operation, given: Sequence[Numbers], dtype: np.dtype[Any]) -> Numbers | None:
    """Towards zero; a number out of range is up to the machine."""
    found = given[0].astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(found, np.trunc(given[0].astype(float))):
        return None
    return found


_DIRECTIONS: Final[Mapping[str, Callable[[Numbers, Numbers], Numbers]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _compare(op: ir.Operation, given: Sequence[Numbers], _: np.dtype[Any]) -> Numbers | None:
    if "TOTALORDER" in str(op.attributes.get("compare_type", "")):
        return None
    return _DIRECTIONS[direction_of(op)](*given)


def _clamp(_: ir.Operation, given: Sequence[Numbers], __: np.dtype[Any]) -> Numbers:
    low, value, high = given
    return np.minimum(np.maximum(value, low), high)


def _divide(_: ir.Operation, given: Sequence[Numbers], dtype: np.dtype[Any]) -> Numbers | None:
    """Towards zero where there are integers."""
    left, right = given
    if dtype.kind == "f":
        return left / right
    if not right.all():
        return None
    quotients: Numbers = (left - np.fmod(left, right)) // right
    return quotients


def _times_inverse(_: ir.Operation, given: Sequence[Numbers], dtype: np.dtype[Any]) -> Numbers:
    return given[0] * (np.ones_like(given[1]) / given[1])


def _reduce(op: ir.Operation, given: Sequence[Numbers], _: np.dtype[Any]) -> Numbers | None:
    """A sum, in another order."""
    if len(given) != 2 or not adds(op):
        return None
    found: Numbers = given[1] + given[0].sum(tuple(integers(op.attributes["dimensions"])))
    return found


def _plain(function: Callable[..., Numbers]) -> Compute:
    return lambda op, given, dtype: function(*given)


_DIVIDE = "stablehlo.divide"
_MOVED = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")
_ELEMENT_WISE: Final[Mapping[str, Compute]] = {
    "stablehlo.convert": _convert,
    "stablehlo.compare": _compare,
    "stablehlo.select": _plain(np.where),
    "stablehlo.clamp": _clamp,
    _DIVIDE: _divide,
    "stablehlo.remainder": lambda _, given, __: np.fmod(*given) if given[1].all() else None,
    "stablehlo.add": _plain(np.add),
    "stablehlo.subtract": _plain(np.subtract),
    "stablehlo.multiply": _plain(np.multiply),
    "stablehlo.minimum": _plain(np.minimum),
    "stablehlo.maximum": _plain(np.maximum),
    "stablehlo.negate": _plain(np.negative),
    "stablehlo.abs": _plain(np.abs),
    "stablehlo.sign": _plain(np.sign),
    "stablehlo.floor": _plain(np.floor),
    "stablehlo.ceil": _plain(np.ceil),
    "stablehlo.round_nearest_even": _plain(np.rint),
    "stablehlo.and": _plain(np.bitwise_and),
    "stablehlo.or": _plain(np.bitwise_or),
    "stablehlo.xor": _plain(np.bitwise_xor),
    "stablehlo.not": _plain(np.invert),
}
# Those of which XLA and NumPy may round the last bits otherwise.
_FUNCTIONS: Final[Mapping[str, Compute]] = {
    "stablehlo.sine": _plain(np.sin),
    "stablehlo.cosine": _plain(np.cos),
    "stablehlo.exponential": _plain(np.exp),
    "stablehlo.sqrt": _plain(np.sqrt),
}
_FAR = 1e-3  # apart, relative to the largest or 1: no rounding changes which of two is larger
_DECIDING = frozenset(
    f"stablehlo.{name}" for name in ("sign", "floor", "ceil", "round_nearest_even", "remainder")
)
_COMPUTED: Final[Mapping[str, Compute]] = {
    **_ELEMENT_WISE,
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": lambda op, given, _: given[0].reshape(_shape(op)),
    "stablehlo.transpose": lambda op, given, _: given[0].transpose(
        integers(op.attributes["permutation"])
    ),
    "stablehlo.slice": _slice,
    "stablehlo.concatenate": lambda op, given, _: np.concatenate(
        given, integer(op.attributes["dimension"])
    ),
    "stablehlo.reduce": _reduce,
}


def of_each_trip(op: ir.Operation, given: Sequence[Numbers]) -> Numbers | None:
    """What an operation on single integers gives in every trip of a loop; None if not known.

    Its result has one element; `given` are its operands, an element for each trip.
    """
    if op.name in _MOVED:
        return given[0]
    compute = _ELEMENT_WISE.get(op.name)
    dtype = _dtype(str(ir.RankedTensorType(op.results[0].type).element_type), wide=False)
    if compute is None or dtype is None or dtype.kind == "f":
        return None
    with np.errstate(all="ignore"):
        found = compute(op, given, dtype)
    return None if found is None else found.astype(dtype, copy=False)
