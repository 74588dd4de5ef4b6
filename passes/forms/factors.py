"""Factorisations that JAX writes as calls of a library: the QR of tall matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtensor.dialect import build
from dtensor.dialect.callbacks import TARGET, target_of
from dtensor.dialect.mlir import ir, made_by, users
from dtensor.passes.forms.scalars import attributes_of
from dtensor.passes.ops.attributes import (
    direction_of,
    shape_of,
    slice_numbers,
    spread_dims,
)
from dtensor.passes.ops.patterns import counts_along, is_zero
from dtensor.passes.rewriting.rewriting import Rewriting

# What gives reflectors and R, and what multiplies the reflectors.
_CALLS = {
    "lapack_sgeqrf_ffi": "lapack_sorgqr_ffi",
    "lapack_dgeqrf_ffi": "lapack_dorgqr_ffi",
    "lapack_cgeqrf_ffi": "lapack_cungqr_ffi",
    "lapack_zgeqrf_ffi": "lapack_zungqr_ffi",
    "cusolver_geqrf_ffi": "cusolver_orgqr_ffi",
    "hipsolver_geqrf_ffi": "hipsolver_orgqr_ffi",
    "Qr": "ProductOfElementaryHouseholderReflectors",
}
_LAYOUTS = ("operand_layouts", "result_layouts")
_OF_ONE = ("output_operand_aliases", "sdy.sharding_rule")  # they speak of its own operands
_ELEMENTS = ("f32", "f64", "complex<f32>", "complex<f64>")


def replace_qr(factor: ir.Operation, function: Rewriting) -> None:
    """A `dtensor.qr` in the place of the calls and of the mask of R, if nothing more is read."""
    wanted = _CALLS.get(target_of(factor))
    type_ = ir.RankedTensorType(factor.operands[0].type) if wanted is not None else None
    if type_ is None or not _is_tall(type_):
        return
    *batch, _, columns = type_.shape
    products, triangles = [], []
    for user in users(factor.results[0]):
        if target_of(user) == wanted and list(user.operands) == list(factor.results):
            products.append(user)
        elif _is_top(user, [*batch, columns, columns]):
            triangles += users(user.results[0])
        else:
            return
    others = [user for user in users(factor.results[1]) if user not in products]
    given = [product.results[0].type for product in products]
    says_enough = given == [type_] or (not given and triangles and _LAYOUTS[1] in factor.attributes)
    if others or not says_enough or not all(map(_is_triangle, triangles)):
        return
    call = attributes_of(factor)
    made = build.qr(
        factor.operands[0],
        ir.DictAttr.get(call),
        ir.DictAttr.get(attributes_of(products[0]) if products else reflectors(call)),
        loc=factor.location,
        ip=ir.InsertionPoint(factor),
    )
    function.made.append(made)
    for product in products:
        function.replace(product, made.results[0])
    for triangle in triangles:
        function.replace(triangle, made.results[1])
    function.drop(factor)


def _is_tall(type_: ir.RankedTensorType) -> bool:
    """Whether a type is that of matrices of more rows than columns, of known elements."""
    if type_.rank < 2 or str(type_.element_type) not in _ELEMENTS:
        return False
    return bool(type_.shape[-2] > type_.shape[-1] > 0)


def reflectors(factor: Mapping[str, ir.Attribute]) -> dict[str, ir.Attribute]:
    """What the call says that multiplies the reflectors that this one gives, of a library.

    Args:
        factor: what that one says, the layouts of operands and results included.
    """
    matrix, scales = ir.ArrayAttr(factor[_LAYOUTS[1]])
    return {
        **{name: said for name, said in factor.items() if name not in _OF_ONE},
        TARGET: ir.StringAttr.get(_CALLS[ir.StringAttr(factor[TARGET]).value]),
        _LAYOUTS[0]: ir.ArrayAttr.get([matrix, scales]),
        _LAYOUTS[1]: ir.ArrayAttr.get([matrix]),
    }


def _is_top(op: ir.Operation, shape: Sequence[int]) -> bool:
    """Whether an op takes the upper square of each matrix."""
    rank = len(shape)
    upper = [0] * rank, list(shape), [1] * rank
    return op.name == "stablehlo.slice" and slice_numbers(op) == upper


def _is_triangle(op: ir.Operation) -> bool:
    """Whether an op puts zeros below the diagonals of its third operand."""
    if op.name != "stablehlo.select" or not is_zero(op.operands[1]):
        return False
    mask, rank = op.operands[0], len(shape_of(op.results[0]))
    spread = made_by("stablehlo.broadcast_in_dim", mask)
    if spread is not None:
        if spread_dims(spread) != [rank - 2, rank - 1]:
            return False
        mask, rank = spread.operands[0], 2
    compare = made_by("stablehlo.compare", mask)
    if compare is None:
        return False
    row, column = map(counts_along, compare.operands)
    is_ahead = direction_of(compare) == "GE"
    return is_ahead and row == (rank - 2, -1) and column == (rank - 1, 0)
