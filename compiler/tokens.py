"""Tokens, which order effects, inside a program; calls of it wait for one another instead."""

from __future__ import annotations

from typing import Any

from dtensor.dialect.mlir import ir, terminator
from dtensor.dialect.names import ARG_ATTRS, RES_ATTRS
from dtensor.passes.functions import main_function

_TOKEN = "!stablehlo.token"
_START = "stablehlo.after_all"  # behind nothing


def keep_tokens_inside(module: Any) -> None:
    """Let `@main` begin each order of effects itself, and return no token.

    Args:
        module: as jax lowers it, tokens being the first arguments and results; rewritten in place.
    """
    main = main_function(module)
    block = main.regions[0].blocks[0]
    count = sum(1 for argument in block.arguments if str(argument.type) == _TOKEN)
    if not count:
        return
    with main.location:
        for argument in list(block.arguments)[:count]:
            start = ir.Operation.create(
                _START, [argument.type], [], ip=ir.InsertionPoint.at_block_begin(block)
            )
            argument.replace_all_uses_with(start.results[0])
        for _ in range(count):
            block.erase_argument(0)
        end = terminator(block)
        kept = list(end.operands)[count:]
        ir.Operation.create("func.return", [], kept, loc=end.location, ip=ir.InsertionPoint(end))
        end.erase()
        inputs = [argument.type for argument in block.arguments]
        type_ = ir.FunctionType.get(inputs, [value.type for value in kept])
        main.attributes["function_type"] = ir.TypeAttr.get(type_)
        for side in (ARG_ATTRS, RES_ATTRS):
            if side in main.attributes:
                left = list(ir.ArrayAttr(main.attributes[side]))[count:]
                main.attributes[side] = ir.ArrayAttr.get(left)
