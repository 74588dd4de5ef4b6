"""The levels of a scan in the form of `jax.lax.associative_scan`, and what combines its elements.

At its odd places a scan has the scan of the pairs. At each even place stands the odd one before it,
combined with the element there. Both are padded with gaps and added. What combines two elements is
read where it is first applied, to the pairs of level 0; everywhere else it must be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.forms.alike import Alike
from dtensor.passes.forms.weaves import sliced_rows, woven_dim
from dtensor.passes.ops.attributes import CONSTANT, integer, shape_of, splat_of
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.rows import IOTA, is_row_work
from dtensor.passes.program import read_by

_LEAST_ELEMENTS = 4  # elements; of fewer there is nothing to recognise


@dataclass(eq=False)
class AssociativeScan:
    """A scan, while it is recognised. Levels are numbered, 0 the one that is longest.

    Attributes:
        root: the operation that gives the scan of operand 0.
        dim: the dimension.
        inputs: the operands.
        ops: the operations that it consists of.
        leaves: the slices that the pairs of level 0 are computed of: whether each is the later of
            a pair, and the number of the operand.
        pairs: what the pairs of level 0 combine to, of each operand.
        elements: the elements of each level and operand.
        scans: the scans of each level and operand.
        rests: their elements at even places but for the first.
        is_by_element: whether what combines pairs computes each element by itself.
    """

    root: ir.Operation
    dim: int
    inputs: list[Value] = field(default_factory=list)
    ops: set[ir.Operation] = field(default_factory=set)
    leaves: dict[Value, tuple[int, int]] = field(default_factory=dict)
    pairs: dict[int, Value] = field(default_factory=dict)
    elements: dict[tuple[int, int], Value] = field(default_factory=dict)
    scans: dict[tuple[int, int], Value] = field(default_factory=dict)
    rests: dict[tuple[int, int], Value] = field(default_factory=dict)
    is_by_element: bool = True
    _alike: dict[tuple[str, int], Alike] = field(default_factory=dict)

    @staticmethod
    def of(root: ir.Operation) -> AssociativeScan | None:
        """The scan that an operation gives, of one or more operands; None if it is none."""
        dim = woven_dim(root)
        if dim is None or shape_of(root.results[0])[dim] < _LEAST_ELEMENTS:
            return None
        scan = AssociativeScan(root, dim)
        return scan if scan._is_one() else None

    def gives(self, other: AssociativeScan) -> bool:
        """Whether this scan gives what another one does."""
        return self.dim == other.dim and all(
            value in self.inputs and self.pairs[self.inputs.index(value)] == other.pairs[k]
            for k, value in enumerate(other.inputs)
        )

    def with_operands_of(self, other: AssociativeScan) -> AssociativeScan | None:
        """Both scans in one, if they have operands in common that both combine alike."""
        shared = [value for value in other.inputs if value in self.inputs]
        if self.dim != other.dim or not shared:
            return None
        places = {value: k for k, value in enumerate(self.inputs)}
        for k, value in enumerate(other.inputs):
            at = places.setdefault(value, len(places))
            if self.pairs.get(at, other.pairs[k]) != other.pairs[k]:
                return None
        shapes = [shape_of(value) for value in places]
        is_by_element = self.is_by_element and other.is_by_element
        return AssociativeScan(
            self.root,
            self.dim,
            list(places),
            self.ops | other.ops,
            {
                leaf: (side, places[scan.inputs[k]])
                for scan in (self, other)
                for leaf, (side, k) in scan.leaves.items()
            },
            {places[v]: scan.pairs[k] for scan in (self, other) for k, v in enumerate(scan.inputs)},
            is_by_element=is_by_element and all(shape == shapes[0] for shape in shapes),
        )

    def _is_one(self) -> bool:
        """Walk down the levels from the root, then check that all combine as the first does."""
        done: set[tuple[int, int, int]] = set()
        self.scans[0, 0] = self.root.results[0]
        # The ends of levels are found first, then what combines pairs, then who is combined.
        checks = (self._is_scan, self._is_level, self._is_rest)
        while True:
            tables = enumerate((self.scans, self.elements, self.rests))
            left = {(number, *key) for number, table in tables for key in table} - done
            if not left:
                return len(self.pairs) == len(self.inputs)
            number, level, k = min(left)
            done.add((number, level, k))
            if not checks[number](level, k):
                return False

    def _binds(
        self, table: dict[tuple[int, int], Value], key: tuple[int, int], value: Value
    ) -> bool:
        """Whether this is the value of a level and operand, which the first one seen becomes."""
        return bool(table.setdefault(key, value) == value)

    def _size(self, level: int) -> int:
        return shape_of(self.root.results[0])[self.dim] >> level

    def _is_scan(self, level: int, k: int) -> bool:
        """Whether a value is the scan of its level; the next level is then known too."""
        size, value = self._size(level), self.scans[level, k]
        if size == 1:
            return self._binds(self.elements, (level, k), value)
        op = maker_of(value)
        if op is None or op.block != self.root.block or woven_dim(op) != self.dim:
            return False
        even, odd = (maker_of(operand) for operand in op.operands)
        assert even is not None, "a pad"
        assert odd is not None, "a pad"
        self.ops |= {op, even, odd}
        if shape_of(odd.operands[0])[self.dim] != size // 2:
            return False
        return self._binds(self.scans, (level + 1, k), odd.operands[0]) and self._is_even(
            level, k, maker_of(even.operands[0])
        )

    def _is_even(self, level: int, k: int, op: ir.Operation | None) -> bool:
        """Whether an operation puts the first element in front of the other even places."""
        if op is None or op.name != "stablehlo.concatenate" or len(op.operands) != 2:
            return False
        if integer(op.attributes["dimension"]) != self.dim:
            return False
        first, rest = op.operands
        source = self._source(first, 0, 1, self._size(level))
        self.ops.add(op)
        self.rests[level, k] = rest
        return source is not None and self._binds(self.elements, (level, k), source)

    def _is_rest(self, level: int, k: int) -> bool:
        """Whether the even places are the odd ones before them combined with the elements there."""
        size, below = self._size(level), self._size(level + 1)
        count = (size - 1) // 2
        if not count:
            self._add_empty(self.rests[level, k])
            return True

        def is_behind(pattern: Value, leaf: Value) -> bool:
            side, j = self.leaves[pattern]
            if side:
                source = self._source(leaf, 2, count, size, 2)
                return source is not None and self._binds(self.elements, (level, j), source)
            source = leaf if below == count else self._source(leaf, 0, count, below)
            return source is not None and self._binds(self.scans, (level + 1, j), source)

        return self._is_alike(("rest", level), k, self.rests[level, k], count, is_behind)

    def _add_empty(self, value: Value) -> None:
        """Add what a value of no elements is computed of, which has none either."""
        op = maker_of(value)
        if op is not None and op not in self.ops and 0 in shape_of(value):
            self.ops.add(op)
            for operand in op.operands:
                self._add_empty(operand)

    def _is_level(self, level: int, k: int) -> bool:
        """Whether elements are what the pairs of the level before combine to."""
        value = self.elements[level, k]
        if level == 0:
            return self._is_input(k, value)
        if level == 1:
            self.pairs[k] = value
            return self._reads(value)
        size = self._size(level - 1)

        def is_pair(pattern: Value, leaf: Value) -> bool:
            side, j = self.leaves[pattern]
            source = self._source(leaf, side, size // 2, size, 2)
            return source is not None and self._binds(self.elements, (level - 1, j), source)

        return self._is_alike(("pairs", level), k, value, size // 2, is_pair)

    def _is_input(self, k: int, value: Value) -> bool:
        if k == len(self.inputs):
            self.inputs.append(value)
        self.is_by_element &= shape_of(value) == shape_of(self.root.results[0])
        return self.inputs[k] == value

    def _reads(self, value: Value) -> bool:
        """Whether a value is computed of the pairs of the operands and of constants."""
        left, seen = [value], set[Value]()
        while left:
            value = left.pop()
            if value in seen or value in self.leaves or self._is_leaf(value):
                continue
            seen.add(value)
            if splat_of(value) is not None:
                continue
            op = maker_of(value)
            if op is None or op.block != self.root.block:
                return False
            if not op.operands and op.name in (CONSTANT, IOTA):
                self.is_by_element = False
            elif op not in self.ops and not self._is_work(op):
                return False
            left += reversed(read_by(op))
        return True

    def _is_work(self, op: ir.Operation) -> bool:
        """Whether an operation computes each element, or row, by itself; if so, add it."""
        is_by_element = is_scalar_work(op)
        if not is_by_element and not is_row_work(op):
            return False
        self.ops.add(op)
        shapes = [shape_of(v) for v in (*op.results, *op.operands)]
        self.is_by_element &= is_by_element and all(shape == shapes[0] for shape in shapes)
        return True

    def _is_leaf(self, value: Value) -> bool:
        """Whether a value is one side of the pairs of an operand."""
        size = self._size(0)
        for side in (0, 1):
            source = self._source(value, side, size // 2, size, 2)
            if source is not None:
                if source not in self.inputs:
                    self.elements[0, len(self.inputs)] = source
                    self.inputs.append(source)
                self.leaves[value] = side, self.inputs.index(source)
                return True
        return False

    def _is_alike(
        self,
        step: tuple[str, int],
        k: int,
        value: Value,
        rows: int,
        fits: Callable[[Value, Value], bool],
    ) -> bool:
        """Whether `rows` rows are computed as the pairs of an operand are, of leaves that fit."""
        if k not in self.pairs:
            return False
        alike = self._alike.get(step)
        if alike is None:
            block = self.root.block
            alike = Alike(block, self.leaves, self._size(0) // 2, rows, fits, self.ops)
            self._alike[step] = alike
        return alike.follows(self.pairs[k], value)

    def _source(
        self, value: Value, start: int, count: int, size: int, stride: int = 1
    ) -> Value | None:
        """What `sliced_rows` says of a slice of this scan, which it is then part of."""
        op = maker_of(value)
        if op is None or op.block != self.root.block:
            return None
        source = sliced_rows(op, self.dim, start, count, size, stride)
        if source is not None:
            self.ops.add(op)
        return source
