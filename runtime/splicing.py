"""The program of one device in jax's programs: a primitive, whose lowering is the compiled module.

The module is checked on the way, and gets its Python functions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir as jax_mlir

from dtensor.dialect.callbacks import is_callback
from dtensor.dialect.functions import entry_function
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.modules import read_module
from dtensor.dialect.names import MAIN, SYM_NAME
from dtensor.runtime.on_cpu import Blocks, constrain_transform
from dtensor.runtime.tracing import Primitive, weakref_cache_key_types

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
_CALLBACK_BYTES = re.compile(rb"xla(?:_ffi)?(?:_partitioned)?_python_\w*callback")


@dataclass(frozen=True)
class ArraySpec:
    """An argument or a result, as far as it is loaded and called; `ArrayInfo` says the rest."""

    shape: tuple[int, ...]
    dtype: str
    layout: Layout
    name: str = ""
    weak_type: bool = False

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """Global shape of what the devices hold: longer where the layout does not divide."""
        return self.layout.padded_shape(self.shape)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape of the shard one device holds, in elements."""
        return self.layout.local_shape(self.shape)


@dataclass(frozen=True, eq=False)
class Program:
    """What is loaded and called of a compiled program; `CompiledProgram` says what each is."""

    bytecode: bytes = field(repr=False)
    mesh: Mesh
    args: tuple[ArraySpec, ...]
    results: tuple[ArraySpec, ...]
    donated: tuple[int, ...] = ()
    host_callbacks: tuple[Callable[..., Any], ...] = ()
    keepalives: tuple[object, ...] = ()
    compiler_options: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the bytecode, in hexadecimal: equal wherever the same program was compiled."""
        return hashlib.sha256(self.bytecode).hexdigest()


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


def is_ordered(bytecode: bytes) -> bool:
    """Whether the module calls Python in an order, which it begins by an `after_all`."""
    return b"after_all" in bytecode


class _Key:
    """Stands for a program in jax's traces, which print it."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __repr__(self) -> str:
        return f"program {self.program.fingerprint[:12]}"


weakref_cache_key_types.add(_Key)  # else jax keeps 2,048 programs that nobody else has any more


def local_program(program: Program, name: str) -> Callable[..., tuple[Any, ...]]:
    """The program of one device, as a function that jax can trace."""
    key = _Key(program)

    def body(*args: Any) -> tuple[Any, ...]:
        return tuple(_local_program.bind(*args, key=key))

    body.__name__ = body.__qualname__ = f"dtensor_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
    return body


_local_program = Primitive("dtensor_local_program")
_local_program.multiple_results = True


def _abstract(*args: Any, key: _Key) -> list[jax.core.ShapedArray]:
    return [
        jax.core.ShapedArray(result.local_shape, np.dtype(result.dtype), result.weak_type)
        for result in key.program.results
    ]


def _evaluate(*args: Any, key: _Key) -> list[jax.Array]:
    # Under jax.disable_jit, which is for Python code: there is none in a program. And where jax
    # found a NaN in a program, and looks for the line of Python that made it.
    with jax.disable_jit(False), jax.debug_nans(False), jax.debug_infs(False):
        return list(_compiled(key)(*args))


@lru_cache(maxsize=64)
def _compiled(key: _Key) -> Callable[..., Sequence[jax.Array]]:
    return jax.jit(lambda *args: _local_program.bind(*args, key=key))


def _splice(ctx: Any, *args: Any, key: _Key) -> Any:
    """Add the program's functions to the module jax is lowering, and a call of its `@main`."""
    into, program = ctx.module_context, key.program
    module = read_module(program.bytecode, into.context)  # in jax's own MLIR context
    main = entry_function(module)
    assert main is not None, "the module has no entry function"
    signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    main.attributes[SYM_NAME] = ir.StringAttr.get(MAIN)  # what jax looks for
    _prepare(module, into, program)
    results = list(signature.results)
    for keepalive in program.keepalives:
        into.add_keepalive(keepalive)
    name = jax_mlir.merge_mlir_modules(
        into.module, "dtensor_main", module, dst_symtab=into.symbol_table
    )
    callee: dict[str, ir.Attribute] = {"callee": ir.FlatSymbolRefAttr.get(name)}
    here = ir.InsertionPoint.current
    return ir.Operation.create("func.call", results, list(args), callee, ip=here).results


_local_program.def_abstract_eval(_abstract)
_local_program.def_impl(_evaluate)
jax_mlir.register_lowering(_local_program, _splice)


def python_callbacks(module: Any) -> Iterator[tuple[Any, int]]:
    """Each call of a Python function in a module, with its callback index."""
    for op in _walk(module.operation):
        if is_callback(op) and "mhlo.backend_config" in op.attributes:
            config = ir.DictAttr(op.attributes["mhlo.backend_config"])
            if "index" in config:
                yield op, ir.IntegerAttr(config["index"]).value


def _prepare(module: Any, module_context: Any, program: Program) -> None:
    if "cpu" in module_context.platforms:
        with module.context, ir.Location.unknown():
            _write_for_cpu(module, program)
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


def _write_for_cpu(module: Any, program: Program) -> None:
    changed = {"stablehlo.fft": constrain_transform, "stablehlo.all_to_all": Blocks(module).cut}
    if any(name.partition(".")[2].encode() in program.bytecode for name in changed):
        for op in list(_walk(module.operation)):
            if op.name in changed:
                changed[op.name](op)


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
