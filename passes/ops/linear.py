"""Which operations map what is carried linearly, and which of its dimensions they leave apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.disjoint_sets import DisjointSets
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.patterns import adds
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.table import rule_of

KeptDims = list[int | None]  # per dimension of a result, that of the operand which it is


def kept_dims(op: ir.Operation, sides: Sequence[int]) -> KeptDims | None:
    """Per dimension of the result, the dimension of operands `sides` that it is; None of others.

    None if the operation is no affine map of these operands, which depend on what is carried.
    """
    match op.name.removeprefix("stablehlo."):
        case "add" | "subtract" | "negate" | "dtensor.plus_zero":
            is_one = True
        case "multiply" | "dot_general":
            is_one = len(sides) == 1
        case "divide" | "pad" | "dynamic_slice" | "reduce":
            is_one = list(sides) == [0]
        case "select":
            is_one = 0 not in sides
        case "convert":  # jax writes some that change nothing
            is_one = op.operands[0].type == op.results[0].type
        case name:
            is_one = name in _MOVES
    is_other = op.name == "stablehlo.reduce" and not (len(op.operands) == 2 and adds(op))
    if not is_one or is_other:
        return None
    return _kept(op, sides[0])


_MOVES = ("broadcast_in_dim", "concatenate", "reshape", "reverse", "slice", "transpose")


def _kept(op: ir.Operation, side: int) -> KeptDims:
    """By the rule of the operation: a dimension is another one if one factor walks all of both."""
    info = OpInfo.of(op)
    rule = None if info is None else rule_of(info)
    assert rule is not None, "an affine map"
    own = {rule.passed_on(side, d): d for d in range(len(rule.operands[side]))}
    own.pop(None, None)
    return [own.get(rule.passed_on(~0, r)) for r in range(len(rule.results[0]))]


def adds_to(op: ir.Operation, k: int) -> bool:
    """Whether operand k, that depends on nothing carried, is added, or stands in other places."""
    is_one = op.name in ("stablehlo.concatenate", "stablehlo.pad", "stablehlo.reduce")
    return is_one or (op.name == "stablehlo.select" and k > 0)


class CoupledDims(DisjointSets[tuple[Value, int]]):
    """Dimensions of values that go together, each element by itself, and those that are mixed."""

    def __init__(self) -> None:
        super().__init__()
        self._mixed: list[tuple[Value, int]] = []
        self._values: dict[Value, None] = {}

    def join(self, one: tuple[Value, int], other: tuple[Value, int]) -> None:
        """Two dimensions go together."""
        self._values |= {one[0]: None, other[0]: None}
        super().join(one, other)

    def join_all(self, value: Value, other: Value) -> None:
        """The dimensions of two values of one shape go together."""
        for d in range(len(shape_of(value))):
            self.join((value, d), (other, d))

    def mix(self, value: Value, dims: Iterable[int]) -> None:
        """Dimensions along which elements meet."""
        self._values[value] = None
        self._mixed += [(value, d) for d in dims]

    def note(self, op: ir.Operation, sides: Sequence[int], kept: KeptDims) -> None:
        """What an operation does with its operands `sides`."""
        result: Value = op.results[0]
        self.mix(result, [r for r, d in enumerate(kept) if d is None])
        for k in sides:
            value: Value = op.operands[k]
            self.mix(value, [d for d in range(len(shape_of(value))) if d not in kept])
            for r, d in enumerate(kept):
                if d is not None:
                    self.join((value, d), (result, r))

    def meeting(self) -> list[tuple[Value, int]]:
        """Dimensions of one value that go together: its elements meet those of other places."""
        found = []
        for value in self._values:
            roots = [self.root((value, d)) for d in range(len(shape_of(value)))]
            found += [(value, d) for d, root in enumerate(roots) if roots.count(root) > 1]
        return found

    def mixed(self) -> set[tuple[Value, int]]:
        """What stands for the dimensions along which elements meet."""
        return {self.root(key) for key in (*self._mixed, *self.meeting())}

    def dims_in(self, roots: set[tuple[Value, int]], value: Value) -> list[int]:
        """The dimensions of a value for which one of these stands."""
        return [d for d in range(len(shape_of(value))) if self.root((value, d)) in roots]
