"""Putting a compiled module into the one that jax is lowering, checked and with its callbacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jax.interpreters import mlir as jax_mlir

from dtensor.dialect.callbacks import is_callback
from dtensor.dialect.functions import entry_function
from dtensor.dialect.mlir import ir
from dtensor.dialect.modules import read_module
from dtensor.dialect.names import MAIN, SYM_NAME
from dtensor.runtime.transforms import constrain_transforms

if TYPE_CHECKING:
    from dtensor.runtime.executable import Program

_COLLECTIVES = (
    "all_gather",
    "all_reduce",
    "all_to_all",
    "collective_broadcast",
    "collective_permute",
    "reduce_scatter",
)
_COLLECTIVE_OPS = {f"stablehlo.{name}" for name in _COLLECTIVES}
_GLOBAL_IDS_OPS = {"stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.reduce_scatter"}
_MAIN = "main"  # the function that jax looks for
_CALLBACK_BYTES = re.compile(rb"xla(?:_ffi)?(?:_partitioned)?_python_\w*callback")


def has_collectives(bytecode: bytes) -> bool:
    """Whether the module may hold a collective; bytecode keeps operation names as plain text."""
    return any(name.encode() in bytecode for name in _COLLECTIVES)


def differs_by_device(bytecode: bytes) -> bool:
    """Whether devices may compute different values from the same arguments."""
    ids = (b"partition_id", b"replica_id")
    return has_collectives(bytecode) or any(name in bytecode for name in ids)


def has_python_callbacks(bytecode: bytes) -> bool:
    """Whether the module calls Python functions."""
    return _CALLBACK_BYTES.search(bytecode) is not None


def splice(module_context: Any, program: Program, args: Sequence[Any]) -> Any:
    """Add the program's functions to the module jax is lowering, and a call of its `@main`.

    Args:
        module_context: jax's `ModuleContext`.
        program: the program; its module is parsed into jax's own MLIR context.
        args: the values of the arguments, of local shapes.

    Returns:
        The results of the call.
    """
    module = read_module(program.bytecode, module_context.context)
    main = entry_function(module)
    assert main is not None, "the module has no entry function"
    main.attributes[SYM_NAME] = ir.StringAttr.get(MAIN)  # what jax looks for
    signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    _check_types(signature, program)
    main.attributes["sym_name"] = ir.StringAttr.get(_MAIN)
    _prepare(module, module_context, program)
    results = list(signature.results)
    for keepalive in program.keepalives:
        module_context.add_keepalive(keepalive)
    name = jax_mlir.merge_mlir_modules(
        module_context.module, "dtensor_main", module, dst_symtab=module_context.symbol_table
    )
    callee: dict[str, ir.Attribute] = {"callee": ir.FlatSymbolRefAttr.get(name)}
    here = ir.InsertionPoint.current
    return ir.Operation.create("func.call", results, list(args), callee, ip=here).results


def python_callbacks(module: Any) -> Iterator[tuple[Any, int]]:
    """Each call of a Python function in a module, with its callback index."""
    for op in _walk(module.operation):
        if op.name == "stablehlo.custom_call":
            target = ir.StringAttr(op.attributes["call_target_name"]).value
            if is_callback(target) and "mhlo.backend_config" in op.attributes:
                config = ir.DictAttr(op.attributes["mhlo.backend_config"])
                if "index" in config:
                    yield op, ir.IntegerAttr(config["index"]).value


def _check_types(signature: Any, program: Program) -> None:
    for infos, types in (
        (program.args, list(signature.inputs)),
        (program.results, list(signature.results)),
    ):
        planned = [info.local_shape for info in infos]
        found = [tuple(ir.RankedTensorType(type_).shape) for type_ in types]
        assert planned == found, f"@main has local shapes {found}, the layouts say {planned}"


def _prepare(module: Any, module_context: Any, program: Program) -> None:
    if b"fft" in program.bytecode and "cpu" in module_context.platforms:
        with module.context, ir.Location.unknown():
            constrain_transforms(list(_walk(module.operation)))
    callbacks = has_python_callbacks(program.bytecode)
    if not (callbacks or has_collectives(program.bytecode) or b"dtensor" in program.bytecode):
        return
    for op in _walk(module.operation):
        _check_form(op)
    if not callbacks:
        return
    first = len(module_context.host_callbacks)
    for callback in program.host_callbacks:
        module_context.add_host_callback(callback)
    for op, index in list(python_callbacks(module)):
        assert index < len(program.host_callbacks), "a callback without its Python function"
        number = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), first + index)
        op.attributes["mhlo.backend_config"] = ir.DictAttr.get({"index": number})


def _check_form(op: Any) -> None:
    """Check what XLA answers by aborting the process, where it is answered at all."""
    name = op.name
    assert not name.startswith("dtensor."), f"{name} was not lowered"
    if name in _COLLECTIVE_OPS:
        assert "channel_handle" in op.attributes, f"{name} without a channel"
        if name in _GLOBAL_IDS_OPS:
            assert "use_global_device_ids" in op.attributes, f"{name} without global device ids"


def _walk(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                yield inner.operation
                yield from _walk(inner)
