"""What mesh axes do to the tensors of one op, by its rule: places, parts, and the shards' values.

Written apart from the compiler's own arithmetic, on which it is to be a check.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from dtensor.compiler.verification.shards import COMBINE
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim, canonical_digits
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.ops.rule import DimMap, Factor, OpInfo, OpRule

Array = NDArray[Any]
Shape = tuple[int, ...]
Coordinates = dict[str, int]

NUMPY_TYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
}


@dataclass(frozen=True)
class Label:
    """What one mesh axis does to an op: splits a factor, or holds parts.

    Attributes:
        size: devices along the axis.
        factor: the factor, or None for a partial pass.
        position: M, the combinations of the factor's more major digits.
        pass_index: which of the rule's partial passes.
    """

    size: int
    factor: int | None = None
    position: int = 1
    pass_index: int = -1


@dataclass
class Tensor:
    """Shape, element type and, per mesh axis, what the axis does to one operand or result."""

    shape: Shape
    element: str
    places: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # dim, position, size
    parts: dict[str, tuple[str, int]] = field(default_factory=dict)  # reduction, size
    owned: dict[str, tuple[str, int]] = field(default_factory=dict)  # the identity off shard 0

    def layout(self, mesh: Mesh) -> Layout:
        words: list[list[tuple[int, str, int]]] = [[] for _ in self.shape]
        for axis, (dim, position, size) in self.places.items():
            words[dim].append((position, axis, size))
        dims = []
        for word in words:
            digits: list[AxisRef | int] = []
            end = 1
            for position, axis, size in sorted(word):
                assert position % end == 0, "digits of one dimension overlap"
                digits += [position // end, mesh.axis(axis)]
                end = position * size
            dims.append(Dim(canonical_digits(digits)))
        partial = [(mesh.axis(a), kind) for a, (kind, _) in {**self.parts, **self.owned}.items()]
        return Layout(dims, mesh, partial)

    def indices(self, at: Coordinates) -> tuple[Array, ...]:
        """Per dimension, which global indices the shard at some coordinates holds."""
        kept = [np.arange(n) for n in self.shape]
        for axis, (dim, position, size) in self.places.items():
            span = self.shape[dim] // (position * size)
            if span:
                kept[dim] = kept[dim][kept[dim] // span % size == at[axis]]
        return tuple(kept)

    def cut(self, whole: Array, at: Coordinates) -> Array:
        return whole[np.ix_(*self.indices(at))] if self.shape else whole


def places_of(
    rule: OpRule, label: Label
) -> tuple[list[tuple[int, int, int] | None], list[tuple[int, int, int] | None]] | None:
    """Per operand and per result the place of a label's axis; None if the label is invalid."""
    both: list[list[tuple[int, int, int] | None]] = []
    for tensors in (rule.operands, rule.results):
        found: list[tuple[int, int, int] | None] = []
        for maps in tensors:
            place, carries = _place(maps, label)
            if carries and place is None:
                return None
            found.append(place)
        both.append(found)
    return both[0], both[1]


def _place(maps: Sequence[DimMap | None], label: Label) -> tuple[tuple[int, int, int] | None, bool]:
    carries = False
    for dim, digits in enumerate(maps):
        if digits is None or digits.factor != label.factor:
            continue
        carries = True
        if label.position % digits.before:
            continue
        inner = label.position // digits.before
        if digits.size % (inner * label.size) == 0:
            return (dim, digits.outer * inner, label.size), True
    return None, carries


def labels_of(rule: OpRule, sizes: Sequence[int]) -> list[Label]:
    """Every valid label of one axis."""
    found = []
    for number, factor in enumerate(rule.factors):
        if not factor.kind.is_local:
            continue  # these communicate: tests/py/passes/test_algorithms.py runs them on devices
        for n in sizes:
            for position in range(1, max(factor.size, 1) + 1):
                label = Label(n, number, position)
                fits = factor.size % (position * n) == 0
                if fits and places_of(rule, label) is not None:
                    found.append(label)
    return found


def arrange(
    rule: OpRule, info: OpInfo, labels: Mapping[str, Label]
) -> tuple[list[Tensor], list[Tensor]] | None:
    """What several axes do together; None if they do not go together."""
    operands = [
        Tensor(s, e) for s, e in zip(info.operand_shapes, info.operand_elements, strict=True)
    ]
    results = [Tensor(s, e) for s, e in zip(info.result_shapes, info.result_elements, strict=True)]
    for axis, label in labels.items():
        if label.factor is None:
            way = rule.passes[label.pass_index]
            kinds = (*way.operands, *way.results)
            for tensor, kind in zip((*operands, *results), kinds, strict=True):
                if kind is not None:
                    tensor.parts[axis] = (kind, label.size)
        else:
            _split(rule, axis, label, rule.factors[label.factor], operands, results)
    together = [*operands, *results]
    return (operands, results) if all(map(_is_consistent, together)) else None


def _split(
    rule: OpRule,
    axis: str,
    label: Label,
    factor: Factor,
    operands: list[Tensor],
    results: list[Tensor],
) -> None:
    places = places_of(rule, label)
    assert places is not None
    for tensor, place in zip((*operands, *results), (*places[0], *places[1]), strict=True):
        if place is not None:
            tensor.places[axis] = place
    if factor.reduction is not None:
        part = (factor.reduction, label.size)
        for k in factor.partial_operands:
            operands[k].owned[axis] = part
        for tensor in results:
            if axis not in tensor.places:
                tensor.parts[axis] = part


def _is_consistent(tensor: Tensor) -> bool:
    kinds = {kind for kind, _ in (*tensor.parts.values(), *tensor.owned.values())}
    if len(kinds) > 1:
        return False
    for dim in range(len(tensor.shape)):
        end = 1
        for _, position, size in sorted(p for p in tensor.places.values() if p[0] == dim):
            if position % end:
                return False
            end = position * size
        if tensor.shape[dim] % end:
            return False
    return True


def random_values(rng: np.random.Generator, shape: Shape, element: str) -> Array:
    """Values with which sums, products and quotients are exact.

    Floats are small powers of two and their negatives; integers, which wrap, are small or any.
    """
    dtype = NUMPY_TYPES[element]
    if element == "i1":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if element.startswith(("i", "ui")):
        limits = np.iinfo(dtype)
        large = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        small = rng.integers(max(-4, int(limits.min)), 8, shape).astype(dtype)
        return np.where(rng.integers(0, 2, shape) == 0, large, small)
    values = rng.choice(np.array([-4, -2, -1, 1, 2, 4]), shape)
    if element.startswith("complex"):
        values = values + 1j * rng.choice(np.array([-2, -1, 1, 2]), shape)
    return np.asarray(values).astype(dtype)


def identity(kind: str, shape: Shape, element: str) -> Array:
    dtype = NUMPY_TYPES[element]
    if kind in ("sum", "or"):
        return np.zeros(shape, dtype)
    if kind == "prod":
        return np.ones(shape, dtype)
    if kind == "and":
        return np.full(shape, True if element == "i1" else -1).astype(dtype)
    if element.startswith(("f", "bf")):
        return np.full(shape, -np.inf if kind == "max" else np.inf).astype(dtype)
    limits = np.iinfo(dtype)
    return np.full(shape, limits.min if kind == "max" else limits.max, dtype)


def parts_of(
    rng: np.random.Generator, tensor: Tensor, whole: Array
) -> tuple[Array, dict[tuple[int, ...], Array]]:
    """The complete value and, by coordinates along the partial axes, the part each shard holds."""
    axes = [*tensor.parts, *tensor.owned]
    if not axes:
        return whole, {(): whole}
    kind = next(iter({**tensor.parts, **tensor.owned}.values()))[0]
    sizes = [n for _, n in {**tensor.parts, **tensor.owned}.values()]
    parts: dict[tuple[int, ...], Array] = {}
    total: Array | None = None
    for at in itertools.product(*map(range, sizes)):
        if any(at[len(tensor.parts) :]):
            parts[at] = identity(kind, tensor.shape, tensor.element)
            continue
        part = random_values(rng, tensor.shape, tensor.element) if tensor.parts else whole
        parts[at] = part
        with np.errstate(over="ignore"):
            total = part if total is None else COMBINE[kind](total, part).astype(part.dtype)
    assert total is not None
    return total, parts
