"""Custom calls: what is behind them is unknown, except where JAX says how they may be split."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dtensor.dialect.attributes import entries_of
from dtensor.dialect.callbacks import has_effects, target_of
from dtensor.dialect.mlir import Value, forget, ir, is_read
from dtensor.dialect.names import DEFINED
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.functions import tensor_shape
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import factorised
from dtensor.passes.ops.attributes import backend_config, integer
from dtensor.passes.ops.bodies import inline_body
from dtensor.passes.ops.callbacks import calls_once, expand_once
from dtensor.passes.ops.definition import Definition, definition_of
from dtensor.passes.ops.named_calls import MATRIX_CALLS, NAMED_CALLS
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, says
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder
from dtensor.passes.ops.shardy_rules import SHARDING_RULE, definition_by_rule, is_defined_by_rule

# The libraries that JAX calls. It says along how many first dimensions each matrix is by itself:
# a part of these is called for alike.
_LIBRARIES = (
    "lapack_",
    "tridiagonal_solve_",
    *(f"{gpu}{name}_" for gpu in ("cu", "hip") for name in ("", "hybrid", "solver", "sparse")),
)
_SAID, _BATCH = "mhlo.frontend_attributes", "num_batch_dims"
# Where it does not: how many last dimensions are taken together.
_TOGETHER = {
    f"{library}{name}": dims
    for name, dims in (("solver_syrk_ffi", 2), ("_threefry2x32_ffi", 0))
    for library in ("cu", "hip")
}
# Triangular solves, of one matrix and any number of right sides.
_SOLVES = frozenset(f"lapack_{element}trsm_ffi" for element in "sdcz")
# Tridiagonal ones, of operand 3, and which result is the solution.
_BANDS = {f"lapack_{element}gtsv_ffi": 3 for element in "sdcz"}
_BANDS |= {"cusparse_gtsv2_ffi": 0, "hipsparse_gtsv2_ffi": 0}


def custom_call_rule(op: OpInfo) -> OpRule | None:
    """As a user defined it; XLA's own by name; of LAPACK and its kin the batch; else None.

    A batch dimension is one of the first of all tensors that have it; a result without it must be
    one that nobody reads.
    """
    defined = definition_of(op)
    if defined is not None:
        return defined.rule(op)
    target = target_of(op.operation)
    return NAMED_CALLS[target].rule(op) if target in NAMED_CALLS else _batch_rule(op, target)


def _batch_rule(op: OpInfo, target: str) -> OpRule | None:
    """What JAX says of a call of a library."""
    batch = _batch_dims(op, target)
    if batch is None:
        return None
    builder = RuleBuilder(op)
    read = [k for k, result in enumerate(op.operation.results) if is_read(result)]
    if all(len(op.result_shapes[k]) >= batch for k in read):
        slots = [*range(len(op.operand_shapes)), *(~k for k in range(len(op.result_shapes)))]
        slots = [slot for slot in slots if len(op.shape(slot)) >= batch]
        for d in range(batch if slots else 0):
            builder.share(*((slot, d) for slot in slots))
    if target in _SOLVES:
        _split_right_sides(op, builder)
    elif target in _BANDS:
        dim = len(op.operand_shapes[3]) - 1
        builder.share((3, dim), (~_BANDS[target], dim))
    return builder.build()


def _batch_dims(op: OpInfo, target: str) -> int | None:
    """Of how many first dimensions a library takes each matrix by itself; None of other calls."""
    if target in _TOGETHER:
        return len(op.operand_shapes[0]) - _TOGETHER[target]
    if not target.startswith(_LIBRARIES) or not op.has(_SAID) or has_effects(op.operation):
        return None
    said = ir.DictAttr(op.attribute(_SAID))
    text = ir.StringAttr(said[_BATCH]).value if _BATCH in said else ""
    return int(text) if text.isdecimal() else None


def _split_right_sides(op: OpInfo, builder: RuleBuilder) -> None:
    """`a x = b` solves each column of b by itself, `x a = b` each row; JAX's rule does not say."""
    config = backend_config(op.operation)
    if "side" not in config:
        return
    side = integer(config["side"])
    dim = len(op.operand_shapes[1]) - (1 if side == ord("L") else 2)
    builder.share((1, dim), (~0, dim))


def widened_call(op: ir.Operation) -> dict[str, ir.Attribute] | None:
    """What a call of a library says of one more dimension of a batch, ahead of the others.

    None where it is not known that there may be more.
    """
    info, target = OpInfo.of(op), target_of(op)
    if info is None:
        return None
    batch = 0 if target in MATRIX_CALLS else None
    said: dict[str, ir.Attribute] = {}
    if batch is None and target not in _TOGETHER:
        batch = _batch_dims(info, target)
        if batch is not None:
            more = {_BATCH: ir.StringAttr.get(str(batch + 1))}
            said[_SAID] = ir.DictAttr.get(entries_of(op.attributes[_SAID]) | more)
    if batch is None or any(len(shape) < batch for shape in info.result_shapes):
        return None
    for name in ("operand_layouts", "result_layouts"):
        if name in op.attributes:
            said[name] = ir.ArrayAttr.get(
                [_longer(row) for row in ir.ArrayAttr(op.attributes[name])]
            )
    return said


def _longer(layout: ir.Attribute) -> ir.Attribute:
    """The order of dimensions in memory, minor first, with a major one more."""
    row = ir.DenseIntElementsAttr(layout)
    order = [*(row[i] + 1 for i in range(len(row))), 0]
    return ir.Attribute.parse(f"dense<{order}> : tensor<{len(order)}xindex>")


def expand_custom_call(op: LocalOp) -> Sequence[Value] | None:
    """A call of Python is made once; a body, and what a call says, is made for local sizes."""
    if calls_once(op):
        return expand_once(op)
    named = NAMED_CALLS.get(target_of(op.operation))
    if named is not None and named.expand is not None:
        named.expand(op)
    if DEFINED not in op.operation.attributes or op.ctx.state is None:
        return None
    make = op.ctx.state.bodies.get(target_of(op.operation))
    if make is None:
        return None
    types = [op.ctx.read_type(value.type) for value in op.operands]
    count = _kernel_counter(op, types)
    return inline_body(op, make(types), count)


def _kernel_counter(
    op: LocalOp, types: Sequence[tuple[tuple[int, ...], str]]
) -> Callable[[ir.Operation], bool]:
    """Says of the first kernel in a body what the definition of `op` counts for its shard.

    The other operations of a body are counted by their own rules, but nobody knows a kernel's.
    """
    shapes = tuple([shape for shape, _ in types])
    outs = tuple([op.local_result_shape(i) for i in range(len(op.result_layouts))])
    elements = tuple([element for _, element in types])
    results = tuple([op.result_element(i) for i in range(len(outs))])
    shard = OpInfo(op.operation, "stablehlo.custom_call", shapes, outs, elements, results)
    flops = round(custom_call_flops(shard))

    def count(inner: ir.Operation) -> bool:
        if inner.name != "stablehlo.custom_call" or not flops:
            return False
        name = target_of(inner)
        if name in NAMED_CALLS or DEFINED in inner.attributes:
            return False
        sides = [", ".join(_unnamed(v.type) for v in vs) for vs in (inner.operands, inner.results)]
        with inner.context:
            made = Definition(name, " -> ".join(sides), flops=str(flops))
            inner.attributes[DEFINED] = made.attribute()
        return True

    return count


def _unnamed(type_: ir.Type) -> str:
    """What a signature says of a tensor that is whole."""
    return " ".join("_" * len(tensor_shape(type_) or ()))


def custom_call_flops(op: OpInfo) -> float:
    """Of a library's call their order; of others as defined, or 0 where nothing is known."""
    defined = definition_of(op)
    if defined is not None:
        return defined.count_flops(op)
    target = target_of(op.operation)
    if target in NAMED_CALLS:
        known = NAMED_CALLS[target]
        return 0.0 if known.rule(op) is None else known.flops(op)
    batch = _batch_dims(op, target)
    return 0.0 if batch is None else _library_flops(op, batch)


def _library_flops(op: OpInfo, batch: int) -> float:
    """Of the largest matrices m n min(m, n), if the first operand has matrices, else m n."""
    shapes = [shape for shape in op.operand_shapes if len(shape) - batch == 2]
    sizes = [size for shape in shapes for size in shape[batch:]]
    largest = max([math.prod(shape) for shape in op.operand_shapes])
    is_first = len(op.operand_shapes[0]) - batch == 2
    return float(largest) * (min(sizes) if is_first else 1)


def custom_call_fill(rule: OpRule, factor: int) -> padding.Fill | None:
    """Each matrix of a batch by itself; what a user defined says nothing of padding."""
    if rule.info.has(DEFINED):
        return None
    named = NAMED_CALLS.get(target_of(rule.info.operation))
    return padding.passing(rule, factor) if named is None else named.fill(rule, factor)


def _applies(placed: Placed) -> bool:
    """Whether what is called is right on shards in these layouts."""
    named = NAMED_CALLS.get(target_of(placed.op.operation))
    return named is None or named.applies(placed)


def settle_rule(op: ir.Operation) -> None:
    """Take Shardy's rule of a call as its definition, where nothing else is known of it."""
    if not target_of(op).startswith(_LIBRARIES) and is_defined_by_rule(op):
        op.attributes[DEFINED] = definition_by_rule(op).attribute()
    forget(op, SHARDING_RULE)


def _known(operation: ir.Operation) -> tuple[object, ...]:
    """What a definition says, and which results are read."""
    return (*says(DEFINED)(operation), tuple([is_read(result) for result in operation.results]))


CUSTOM_CALL = OpDef(
    custom_call_rule,
    (Algorithm("local", expand_custom_call, _applies),),
    flops=custom_call_flops,
    is_product=True,
    accuracy=factorised,
    known=_known,
    padding=padding.Padding(custom_call_fill),
    settle=settle_rule,
)
