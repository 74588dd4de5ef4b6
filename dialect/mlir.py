"""MLIR as jaxlib ships it. The only file that imports jaxlib's internals.

Everything here is imported without jax, so that `dtensor-opt` starts quickly.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from dtensor.dialect.errors import UnsupportedVersionError

OLDEST: Final = (0, 10, 2)
NEWEST: Final = (0, 13)  # the first version that is not supported


def check_version(version: str) -> None:
    """Check that jaxlib `version` is one that dtensor was tested with.

    Raises:
        UnsupportedVersionError: it is outside 0.10.2 <= version < 0.13.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if not OLDEST <= numbers < NEWEST:
        raise UnsupportedVersionError(
            f"jaxlib {version} is not supported; dtensor needs 0.10.2 <= jaxlib < 0.13: "
            "pip install 'jax>=0.10.2,<0.13'"
        )


def _installed_version() -> str:
    try:
        from jaxlib.version import __version__
    except ImportError as missing:
        raise UnsupportedVersionError(
            "jaxlib is not installed; dtensor needs it: pip install 'jax>=0.10.2,<0.13'"
        ) from missing
    return str(__version__)


JAXLIB_VERSION: Final = _installed_version()
check_version(JAXLIB_VERSION)

from jaxlib.mlir import ir, passmanager  # noqa: E402

# Before the extensions: jaxlib 0.12 registers the classes of sdy's attributes only once.
from jaxlib.mlir.dialects import chlo, func, sdy, stablehlo  # isort: skip # noqa: E402
from jaxlib.mlir._mlir_libs import (  # noqa: E402
    _chlo,
    _jax_mlir_ext,
    _mlir,
    _mosaic_gpu_ext,
    _sdy,
    _stablehlo,
)

_registry = ir.DialectRegistry()
_jax_mlir_ext.register_dialects(_registry)  # also the C++ passes: canonicalize, cse, sdy-*, ...
_stablehlo.register_stablehlo_passes()

Value: TypeAlias = ir.Value[Any]

register_dialect = _mlir.register_dialect
register_operation = _mlir.register_operation


def extend_context(context: ir.Context) -> None:
    """Load func, StableHLO, CHLO and Shardy into `context`; teach C++ `inline` about func.call.

    MLIR loads other dialects of the registry when it reads their names: loading them all, vector
    and llvm with the rest, takes five times as long as all else that a new context needs.
    """
    context.append_dialect_registry(_registry)
    _ = context.dialects["func"]
    for dialect in (_stablehlo, _chlo, _sdy):
        dialect.register_dialect(context)
    _mosaic_gpu_ext.register_inliner_extensions(context)


def maker_of(value: ir.Value[Any]) -> ir.Operation | None:
    """The operation that makes a value; None if it is the argument of a block."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def block_of(value: ir.Value[Any]) -> ir.Block:
    """The block that a value is an argument of, or computed in."""
    owner = value.owner
    return owner if isinstance(owner, ir.Block) else owner.operation.block


def operation_of(value: Value) -> ir.Operation:
    """The operation that makes a value that is no argument."""
    maker = maker_of(value)
    assert maker is not None, "an argument"
    return maker


def made_by(name: str, value: ir.Value[Any]) -> ir.Operation | None:
    """The operation that makes a value, if it has this name."""
    maker = maker_of(value)
    return maker if maker is not None and maker.name == name else None


def users(value: ir.Value[Any]) -> list[ir.Operation]:
    """The operations that read a value, one as often as it does."""
    return [use.owner.operation for use in value.uses]


def reader_of(value: ir.Value[Any]) -> ir.Operation | None:
    """The operation that reads a value, if there is one, and reads it once."""
    readers = users(value)
    return readers[0] if len(readers) == 1 else None


def is_read(value: ir.Value[Any]) -> bool:
    """Whether any operation reads a value."""
    return next(iter(value.uses), None) is not None


def replace_op(op: ir.Operation, values: Iterable[ir.Value[Any]]) -> None:
    """Let values stand for the results of an operation, which is erased."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def terminator(block: ir.Block) -> ir.Operation:
    """The operation that ends a block."""
    return block.operations[len(block.operations) - 1].operation


def ops_of(block: ir.Block) -> list[ir.Operation]:
    """The operations of a block; they may be erased or moved."""
    return [view.operation for view in block.operations]


def bytecode_of(module: Any) -> bytes:
    """A module, ours or of jax, as MLIR bytecode."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def every(owner: ir.Operation) -> list[ir.Operation]:
    """An operation and all in its regions; they may be erased or replaced."""
    found: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        found.append(op.operation)
        return ir.WalkResult.ADVANCE

    owner.walk(collect)
    return found


def forget(op: ir.Operation, *names: str) -> None:
    """Remove attributes, those that are there."""
    attributes = op.attributes
    for name in names:
        if name in attributes:
            del attributes[name]


__all__ = [
    "JAXLIB_VERSION",
    "Value",
    "check_version",
    "chlo",
    "every",
    "extend_context",
    "forget",
    "func",
    "ir",
    "made_by",
    "maker_of",
    "ops_of",
    "passmanager",
    "register_dialect",
    "register_operation",
    "sdy",
    "stablehlo",
    "terminator",
]
