"""Running a per-device program on 8 CPU devices, and an oracle of which elements a shard holds.

The oracle reads a layout's digits one element at a time and shares no code with the compiler.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir as jax_mlir
from jax.sharding import PartitionSpec

from dtensor.dialect.context import make_context
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import func, ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.lowering.lower import LowerPass

Array = np.ndarray[Any, np.dtype[Any]]
Body = Callable[[ExpansionContext, list[ir.Value[Any]]], list[ir.Value[Any]]]

_primitive = Primitive("dtensor_test_local")
_primitive.multiple_results = True


def _results(*_: Any, text: str, outs: tuple[tuple[tuple[int, ...], str], ...]) -> list[Any]:
    return [jax.core.ShapedArray(shape, jax.numpy.dtype(dtype)) for shape, dtype in outs]


_primitive.def_abstract_eval(_results)


def _splice(ctx: Any, *args: Any, text: str, outs: Any) -> Any:
    module = ir.Module.parse(text, ctx.module_context.context)
    main = next(op for op in module.body.operations if isinstance(op, func.FuncOp))
    name = jax_mlir.merge_mlir_modules(
        ctx.module_context.module, "local", module, dst_symtab=ctx.module_context.symbol_table
    )
    results = [result.type for result in _terminator(main).operands]
    return func.CallOp(results, ir.FlatSymbolRefAttr.get(name), list(args)).results


jax_mlir.register_lowering(_primitive, _splice)


def _terminator(main: func.FuncOp) -> ir.Operation:
    operations = main.operation.regions[0].blocks[0].operations
    last: ir.Operation = operations[len(operations) - 1].operation
    return last


def local_module(mesh: Mesh, types: Sequence[str], body: Body, passes: Sequence[Pass] = ()) -> str:
    """The lowered text of a per-device function of arguments `types`, after other passes."""
    with make_context(), ir.Location.unknown():
        names = [f"%{i}: {t}" for i, t in enumerate(types)]
        module = ir.Module.parse(
            f'"dtensor.mesh"() {{sym_name = "{mesh.symbol}", mesh = {mesh.asm()}}} : () -> ()\n'
            f"func.func public @main({', '.join(names)}) {{ return }}"
        )
        main = module.body.operations[1].operation
        block = main.regions[0].blocks[0]
        end = block.operations[0].operation
        context = ExpansionContext(mesh, None, lambda *_: None)  # type: ignore[arg-type]
        context.move_to(end)
        values = body(context, list(block.arguments))
        context.create("func.return", values, [])
        end.erase()
        type_ = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in values])
        main.attributes["function_type"] = ir.TypeAttr.get(type_)
        for earlier in passes:
            earlier.run(module, PassState(mesh=mesh))
        return lower_text(module, mesh)


def lower_text(module: ir.Module, mesh: Mesh) -> str:
    """The text of a module after dtensor-lower."""
    LowerPass().run(module, PassState(mesh=mesh))
    module.operation.verify()
    return str(module)


def run_text(
    mesh: Mesh,
    text: str,
    inputs: Sequence[Sequence[Array]],
    outs: Sequence[tuple[tuple[int, ...], str]],
) -> list[list[Array]]:
    """Run a lowered module; arguments and results are lists of local arrays, one per device."""
    devices = np.array(jax.devices()[: mesh.size])
    jax_mesh = jax.sharding.Mesh(devices, ("d",))
    spec = PartitionSpec("d")

    def body(*args: Any) -> Any:
        return tuple(_primitive.bind(*args, text=text, outs=tuple(outs)))

    program = jax.jit(
        jax.shard_map(
            body,
            mesh=jax_mesh,
            in_specs=(spec,) * len(inputs),
            out_specs=(spec,) * len(outs),
            check_vma=False,
        )
    )
    stacked = [np.concatenate(shards, axis=0) for shards in inputs]
    results = program(*stacked)
    return [list(np.split(np.asarray(r), mesh.size, axis=0)) for r in results]


def element_type(dtype: str) -> str:
    """MLIR's name of a NumPy dtype."""
    names = {"bfloat16": "bf16", "bool": "i1", "complex64": "complex<f32>"}
    if dtype in names:
        return names[dtype]
    kind, size = re.fullmatch(r"(float|uint|int)(\w+)", dtype).groups()  # type: ignore[union-attr]
    prefix = {"float": "f", "uint": "ui", "int": "i"}[kind]
    return prefix + (size[:1] + size[2:].upper() if "_" in size else size)


def tensor_type(shape: Sequence[int], dtype: str) -> str:
    """MLIR's text of a tensor type."""
    return f"tensor<{'x'.join([*map(str, shape), element_type(dtype)])}>"


def shard_indices(layout: Layout, shape: Sequence[int], device: int) -> list[list[int]]:
    """For each dimension, the indices of the elements that a device holds, in order."""
    mesh = layout.mesh
    coordinates = {}
    rest = device
    for name, size in reversed(mesh.axes):
        coordinates[name] = (rest % size, size)
        rest //= size
    indices = []
    for dim, size in zip(layout.dims, shape, strict=True):
        held = []
        for element in range(size):
            left, weight, mine = element, size, True
            for digit in dim.digits:
                count = digit if isinstance(digit, int) else digit.size
                weight //= count
                value, left = divmod(left, weight)
                if not isinstance(digit, int):
                    whole, of = coordinates[digit.name]
                    below = of // (digit.pre * digit.size)
                    mine &= value == whole // below % digit.size
            if mine:
                held.append(element)
        indices.append(held)
    return indices


def shard(array: Array, layout: Layout, device: int) -> Array:
    """The part of a complete array that a device holds."""
    return array[np.ix_(*shard_indices(layout, array.shape, device))]


def partial_groups(layout: Layout) -> list[list[int]]:
    """The devices that hold parts of the same elements."""
    mesh = layout.mesh
    groups: dict[tuple[int, ...], list[int]] = {}
    for device in range(mesh.size):
        key, rest = [], device
        for name, size in reversed(mesh.axes):
            coordinate, rest = rest % size, rest // size
            for axis in layout.partial_axes:
                if axis.name == name:
                    below = size // (axis.pre * axis.size)
                    coordinate -= (coordinate // below % axis.size) * below
            key.append(coordinate)
        groups.setdefault(tuple(key), []).append(device)
    return list(groups.values())
