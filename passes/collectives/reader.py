"""The dtensor operations of a module, read once into lists that the rewrites work on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtensor.dialect import names
from dtensor.dialect.attributes import axes_attr, index_attr, mesh_and_axes
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.functions import functions
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, ir, is_read, ops_of, users
from dtensor.dialect.ops import OPS
from dtensor.passes.collectives.order import in_order, only_computes
from dtensor.passes.ops.attributes import integer
from dtensor.passes.program import Scope, walk

_OVER_AXES = frozenset(
    name for name, op in OPS.items() if names.AXES in op.ATTRIBUTES or names.FROM in op.ATTRIBUTES
)
SMALL_BYTES = 1 << 17  # of a message: to begin it takes as long as to put it together of parts


class CollectiveOp:
    """One dtensor operation.

    Attributes:
        op: the operation.
        name: its name.
        mesh: the mesh of its axes.
        axes: its axes; of a permute, those the shards come from.
        dim: the dimension it works on, or -1.
        reduction: how it combines, or "".
        scope: the block it stands in.
        is_alive: False once it was erased.
    """

    __slots__ = ("axes", "dim", "is_alive", "mesh", "name", "op", "reduction", "scope")

    def __init__(self, op: ir.Operation, scope: Scope, meshes: dict[str, Mesh]) -> None:
        self.op = op
        self.name = op.name
        self.scope = scope
        attributes = op.attributes
        axes = names.FROM if self.name == names.COLLECTIVE_PERMUTE else names.AXES
        self.mesh, self.axes = mesh_and_axes(attributes[axes], meshes)
        self.dim = integer(attributes[names.DIM]) if names.DIM in attributes else -1
        self.reduction = ""
        if names.REDUCTION in attributes:
            self.reduction = str(ir.StringAttr(attributes[names.REDUCTION]).value)
        self.is_alive = True


class CollectiveOps:
    """The dtensor operations of one module, and the changes made to them.

    Attributes:
        items: every operation, dead ones included; new ones are appended.
    """

    def __init__(self, module: ir.Module, meshes: dict[str, Mesh]) -> None:
        self.meshes = meshes
        self.items: list[CollectiveOp] = []
        self.maker: dict[Value, CollectiveOp] = {}
        self.worklist: list[CollectiveOp] = []
        for function in functions(module):
            for op, name, scope in walk(function, combiners=True):
                if name in _OVER_AXES:
                    self.add(op, scope)

    def add(self, op: ir.Operation, scope: Scope) -> CollectiveOp:
        """Take note of an operation and put it on the worklist."""
        item = CollectiveOp(op, scope, self.meshes)
        self.items.append(item)
        for result in op.results:
            self.maker[result] = item
        self.worklist.append(item)
        return item

    def producer(self, value: Value) -> CollectiveOp | None:
        """The dtensor operation that made a value."""
        return self.maker.get(value)

    def users(self, item: CollectiveOp) -> list[CollectiveOp]:
        """The dtensor operations that use a result of `item`."""
        found = [user for result in item.op.results for user in users(result) if user.results]
        return [self.maker[op.results[0]] for op in found if op.results[0] in self.maker]

    def has_one_use(self, item: CollectiveOp) -> bool:
        """Whether the results of `item` are used exactly once altogether."""
        return sum(1 for result in item.op.results for _ in result.uses) == 1

    def is_unused(self, item: CollectiveOp) -> bool:
        """Whether nothing uses a result of `item`."""
        return not any(map(is_read, item.op.results))

    def create(
        self,
        name: str,
        operands: Sequence[Value],
        types: Sequence[ir.Type],
        axes: tuple[Mesh, Sequence[AxisRef]],
        before: CollectiveOp,
        because: CollectiveOp,
        dims: dict[str, int] | None = None,
        reduction: str = "",
    ) -> CollectiveOp:
        """A new operation in front of `before`, in the place of `because`, at whose location it is.

        `axes` are the mesh and the axes that it works over, `dims` the dimensions, by attribute
        name.
        """
        attributes = {names.AXES: axes_attr(*axes)}
        for key, dim in (dims or {}).items():
            attributes[key] = index_attr(dim)
        if reduction:
            attributes[names.REDUCTION] = ir.StringAttr.get(reduction)
        op = ir.Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            attributes=attributes,
            loc=because.op.location,
            ip=ir.InsertionPoint(before.op),
        )
        return self.add(op, before.scope)

    def replace(self, item: CollectiveOp, values: Sequence[Value]) -> None:
        """Use `values` in place of the results of `item`, and erase it."""
        self.worklist += self.users(item)
        for result, value in zip(item.op.results, values, strict=True):
            result.replace_all_uses_with(value)
        self.erase(item)

    def erase(self, item: CollectiveOp) -> None:
        """Erase an operation that is not used, and those that only it used."""
        made_operands = [self.producer(value) for value in item.op.operands]
        self._forget(item)
        item.op.erase()
        for producer in made_operands:
            if producer is None or not producer.is_alive:
                continue
            if self.is_unused(producer):
                self.erase(producer)
            else:
                self.worklist.append(producer)

    def erase_unread(self, scope: Scope) -> None:
        """Erase from a block what nothing reads, and what is read by that alone."""
        for op in reversed(list(ops_of(scope.block))):
            if len(op.results) and not any(map(is_read, op.results)) and only_computes(op):
                item = self.producer(op.results[0])
                if item is not None:
                    self._forget(item)
                op.erase()

    def _forget(self, item: CollectiveOp) -> None:
        item.is_alive = False
        for result in item.op.results:
            del self.maker[result]


def as_they_stand(items: Iterable[CollectiveOp]) -> list[CollectiveOp]:
    """Those of one block that are alive, in its order."""
    return sorted([item for item in items if item.is_alive], key=lambda item: in_order(item.op))
