"""How operations are written for XLA's CPU code: where it fails, or compiles each of many anew."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.dialect.names import SYM_NAME


def constrain_transform(op: Any) -> None:
    """Let a Fourier transform on CPU have operand and result row-major in memory.

    XLA chooses an order per value, and lets a gather along a dimension that is not the first spread
    its own to the transform beside it; XLA's CPU code then refuses ("IsMonotonicWithDim0Major").
    Other code takes any order, and a TPU's cannot constrain a complex value.
    """
    result = op.results[0]
    op.operands[0] = _row_major(op.operands[0], op, ir.InsertionPoint(op)).results[0]
    after = _row_major(result, op, ir.InsertionPoint.after(op))
    result.replace_all_uses_except(after.results[0], after)


def _row_major(
    value: ir.Value[Any], transform: ir.Operation, point: ir.InsertionPoint
) -> ir.Operation:
    rank = ir.RankedTensorType(value.type).rank
    order = ir.DenseElementsAttr.get(
        array("q", range(rank - 1, -1, -1)),
        type=ir.RankedTensorType.get([rank], ir.IndexType.get()),
    )
    return ir.Operation.create(
        "stablehlo.custom_call",
        results=[value.type],
        operands=[value],
        attributes={
            "call_target_name": ir.StringAttr.get("LayoutConstraint"),
            "operand_layouts": ir.ArrayAttr.get([order]),
            "result_layouts": ir.ArrayAttr.get([order]),
        },
        loc=transform.location,
        ip=point,
    )


_SMALL = 4096  # elements: to write so many to memory takes no time beside the exchange


class Blocks:
    """Cuts what small all_to_alls of a module send into blocks, by calls of functions.

    XLA's CPU code cuts it anyway, by a kernel for each block, into which it fuses what makes the
    operand; and it compiles each of these kernels, which takes some 30 ms. What is called and not
    inlined it compiles once, if calls differ in no constant that it knows. The operand is then
    written to memory first, so large ones are left as they are.
    """

    def __init__(self, module: Any) -> None:
        self._symbols = ir.SymbolTable(module.operation)
        self._end = ir.InsertionPoint(module.body)
        self._functions: dict[tuple[ir.Type, int, int], ir.Attribute] = {}
        self._place = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))

    def cut(self, exchange: Any) -> None:
        """Let an all_to_all take the blocks side by side, which XLA does not put together again."""
        value, given = exchange.operands[0], exchange.attributes
        dim, count = (
            ir.IntegerAttr(given[name]).value for name in ("split_dimension", "split_count")
        )
        whole = ir.RankedTensorType(value.type)
        sizes = list(whole.shape)
        if math.prod(sizes) > _SMALL:
            return
        sizes[dim] //= count
        block = ir.RankedTensorType.get(sizes, whole.element_type)
        key = value.type, dim, count
        if key not in self._functions:
            self._functions[key] = self._function(value.type, block, dim)
        attributes = {
            "callee": self._functions[key],
            "mhlo.frontend_attributes": ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")}),
        }
        point, loc = ir.InsertionPoint(exchange), exchange.location
        starts = [self._number(k * sizes[dim], point) for k in range(count)]
        hidden = ir.Operation.create(
            "stablehlo.optimization_barrier", [self._place] * count, starts, loc=loc, ip=point
        )
        blocks = [
            ir.Operation.create("func.call", [block], [value, k], attributes, loc=loc, ip=point)
            for k in hidden.results
        ]
        along = {"dimension": given["split_dimension"]}
        parts = [made.results[0] for made in blocks]
        exchange.operands[0] = _create("stablehlo.concatenate", parts, value.type, along, point)

    def _function(self, whole: ir.Type, block: Any, dim: int) -> ir.Attribute:
        """A function of a value and a place along a dimension, where the block begins."""
        takes = [whole, self._place]
        attributes = {
            SYM_NAME: ir.StringAttr.get("dtensor_block"),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(takes, [block])),
        }
        function = ir.Operation.create("func.func", [], [], attributes, regions=1, ip=self._end)
        body = function.regions[0].blocks.append(*takes, arg_locs=[function.location] * 2)
        point, (value, place) = ir.InsertionPoint(body), body.arguments
        zero = self._number(0, point)
        starts = [place if d == dim else zero for d in range(block.rank)]
        sizes = {"slice_sizes": ir.DenseI64ArrayAttr.get(list(block.shape))}
        cut = _create("stablehlo.dynamic_slice", [value, *starts], block, sizes, point)
        ir.Operation.create("func.return", [], [cut], ip=point)
        name: ir.Attribute = self._symbols.insert(function)
        return ir.FlatSymbolRefAttr.get(ir.StringAttr(name).value)

    def _number(self, number: int, point: ir.InsertionPoint) -> ir.Value[Any]:
        attr = ir.IntegerAttr.get(self._place.element_type, number)
        value = {"value": ir.DenseElementsAttr.get([attr], type=self._place)}
        return _create("stablehlo.constant", [], self._place, value, point)


def _create(
    name: str,
    operands: Sequence[ir.Value[Any]],
    type_: ir.Type,
    attributes: Mapping[str, ir.Attribute],
    point: ir.InsertionPoint,
) -> ir.Value[Any]:
    made = ir.Operation.create(name, [type_], operands, dict(attributes), ip=point)
    value: ir.Value[Any] = made.results[0]
    return value
