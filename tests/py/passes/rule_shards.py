"""One op expanded for a shard, and many such functions run in one XLA module on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax._src.lib import xla_client  # type: ignore[attr-defined]

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir, passmanager
from dtensor.passes.base import PassState
from dtensor.passes.expansion.expand import ExpandPass
from tests.py.passes.rule_labels import Array
from tests.py.twins import replace_twins

_ROUNDS = 32


def function_of(module: ir.Module) -> ir.Operation:
    operations: list[ir.Operation] = [view.operation for view in module.body.operations]
    return next(op for op in operations if op.name == "func.func")


def operation_of(module: ir.Module) -> ir.Operation:
    block = function_of(module).regions[0].blocks[0]
    operations: list[ir.Operation] = [view.operation for view in block.operations]
    assert len(operations) == 2, "a module of one op and a return"
    return operations[0]


def expanded(
    text: str, mesh: Mesh, operands: Sequence[Layout], results: Sequence[Layout], name: str
) -> tuple[str, list[tuple[AxisRef, ...]]]:
    """The function of one shard, as text; coordinates that it asks for are further arguments."""
    module = ir.Module.parse(text)
    op, function = operation_of(module), function_of(module)
    block = function.regions[0].blocks[0]
    layouts: list[Layout | None] = [None] * len(block.arguments)
    arguments = list(block.arguments)
    for value, layout in zip(op.operands, operands, strict=True):
        index = arguments.index(value)
        assert layouts[index] in (None, layout), "an argument is used in two layouts"
        layouts[index] = layout
    parse = ir.Attribute.parse
    op.attributes["dtensor.results"] = ir.ArrayAttr.get([parse(x.asm()) for x in results])
    for key, values in (("arg_attrs", layouts), ("res_attrs", results)):
        entries = [ir.DictAttr.get({"dtensor.layout": parse(x.asm())}) for x in values if x]
        function.attributes[key] = ir.ArrayAttr.get(entries)
    return expanded_function(module, mesh, name)


def expanded_function(
    module: ir.Module, mesh: Mesh, name: str
) -> tuple[str, list[tuple[AxisRef, ...]]]:
    """As `expanded`, of a module that has its layouts."""
    function = function_of(module)
    ExpandPass().run(module, PassState(mesh=mesh))
    for key in ("arg_attrs", "res_attrs"):
        del function.attributes[key]
    function.attributes["sym_name"] = ir.StringAttr.get(name)
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    asked = _coordinates_as_arguments(function, mesh)
    assert module.operation.verify()
    return str(function), asked


def _coordinates_as_arguments(function: ir.Operation, mesh: Mesh) -> list[tuple[AxisRef, ...]]:
    block = function.regions[0].blocks[0]
    asked: list[tuple[AxisRef, ...]] = []
    i32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    for op in _dtensor_ops(block):
        assert op.name in ("dtensor.axis_index", "dtensor.all_slice"), f"{op.name} in an expansion"
        text = str(op.attributes["axes"])
        axes = Layout.parse(f"#dtensor.layout<@mesh, [{{{text[text.index('[') + 1 : -2]}}}]>", mesh)
        asked.append(axes.axes)
        index = block.add_argument(i32, op.location)
        if op.name == "dtensor.axis_index":
            op.results[0].replace_all_uses_with(index)
        else:
            _slice_at(op, index, i32)
        op.erase()
    inputs = [argument.type for argument in block.arguments]
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    local = ir.FunctionType.get(inputs, type_.results)
    function.attributes["function_type"] = ir.TypeAttr.get(local)
    return asked


def _dtensor_ops(block: ir.Block) -> list[ir.Operation]:
    found: list[ir.Operation] = []
    for view in block.operations:
        op = view.operation
        if op.name.startswith("dtensor."):
            found.append(op)
        for region in op.regions:
            for inner in region.blocks:
                found += _dtensor_ops(inner)
    return found


def _slice_at(op: ir.Operation, index: ir.Value[Any], i32: ir.Type) -> None:
    point, type_ = ir.InsertionPoint(op), ir.RankedTensorType(op.results[0].type)
    dim = ir.IntegerAttr(op.attributes["dim"]).value

    def scalar(number: int) -> ir.Value[Any]:
        value = ir.DenseElementsAttr.get_splat(
            i32, ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
        )
        created: ir.Value[Any] = ir.Operation.create(
            "stablehlo.constant", [i32], [], {"value": value}, loc=op.location, ip=point
        ).results[0]
        return created

    start = ir.Operation.create(
        "stablehlo.multiply", [i32], [index, scalar(type_.shape[dim])], loc=op.location, ip=point
    ).results[0]
    starts = [start if d == dim else scalar(0) for d in range(type_.rank)]
    sizes = ir.DenseI64ArrayAttr.get(list(type_.shape))
    cut = ir.Operation.create(
        "stablehlo.dynamic_slice",
        [type_],
        [op.operands[0], *starts],
        {"slice_sizes": sizes},
        loc=op.location,
        ip=point,
    )
    op.results[0].replace_all_uses_with(cut.results[0])


@dataclass
class Call:
    """One call of one function in the module that is compiled."""

    function: str
    inputs: list[Array]
    outputs: list[Array] = field(default_factory=list)


def run_calls(functions: Mapping[str, str], calls: Sequence[Call]) -> None:
    """Compile all functions with one `main`, run it several times, fill in the calls' outputs.

    XLA compiles each call of a function anew, and that is what takes time: so `main` has a place
    for every `_ROUNDS` calls of a function, and each run carries out one of them. Functions that
    differ in their names alone, as several labels of an op make them, are one.
    """
    first: dict[str, str] = {}
    same = {
        name: first.setdefault(text.replace(f"@{name}(", "@("), name)
        for name, text in functions.items()
    }
    functions = {name: functions[name] for name in first.values()}
    waiting: dict[str, list[Call]] = {name: [] for name in functions}
    for call in calls:
        waiting[same[call.function]].append(call)
    places = [own[i : i + _ROUNDS] for own in waiting.values() for i in range(0, len(own), _ROUNDS)]
    run = _compiled(functions, [same[place[0].function] for place in places])
    with jax.enable_x64(True):
        inputs = jax.device_put([[call.inputs for call in place] for place in places])
    for number in range(max(map(len, places))):
        # A place that has had all its calls repeats the last one.
        current = [place[min(number, len(place) - 1)] for place in places]
        held = [place[min(number, len(place) - 1)] for place in inputs]
        flat = run([value for call in held for value in call])
        for call, outputs in zip(current, flat, strict=True):
            call.outputs = outputs


def _compiled(
    functions: Mapping[str, str], places: Sequence[str]
) -> Callable[[Sequence[jax.Array]], list[list[Array]]]:
    """What calls the functions of these names in one program, and gives the outputs of each."""
    signatures = {name: _signature(text) for name, text in functions.items()}
    parameters: list[str] = []
    body: list[str] = []
    returned: list[tuple[str, str]] = []
    for number, name in enumerate(places):
        inputs, outputs = signatures[name]
        names = [f"%a{len(parameters) + i}" for i in range(len(inputs))]
        parameters += [f"{n}: {t}" for n, t in zip(names, inputs, strict=True)]
        head = f"%r{number}:{len(outputs)} = " if outputs else ""
        types = f"({', '.join(inputs)}) -> ({', '.join(outputs)})"
        body.append(f"{head}func.call @{name}({', '.join(names)}) : {types}")
        returned += [(f"%r{number}#{i}", t) for i, t in enumerate(outputs)]
    results = ", ".join(t for _, t in returned)
    main = (
        f"func.func public @main({', '.join(parameters)}) -> ({results}) {{\n"
        + "\n".join(body)
        + f"\nreturn {', '.join(v for v, _ in returned)} : {results}\n}}"
    )
    execute = _executable("module {\n" + "\n".join(functions.values()) + "\n" + main + "\n}")

    def run(values: Sequence[jax.Array]) -> list[list[Array]]:
        flat = iter(map(np.asarray, execute(values)))
        return [[next(flat) for _ in signatures[name][1]] for name in places]

    return run


def _signature(text: str) -> tuple[list[str], list[str]]:
    module = ir.Module.parse(f"module {{ {text} }}")
    function = function_of(module)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return [str(t) for t in type_.inputs], [str(t) for t in type_.results]


def _without_chlo(text: str) -> str:
    module = ir.Module.parse(text)
    replace_twins(module)
    pipeline = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
    passmanager.PassManager.parse(pipeline).run(module.operation)
    return str(module)


def _executable(text: str) -> Callable[[Sequence[jax.Array]], Sequence[jax.Array]]:
    if "chlo." in text:
        text = _without_chlo(text)
    device = jax.devices("cpu")[0]
    options = xla_client.CompileOptions()
    debug = options.executable_build_options.debug_options
    debug.xla_backend_optimization_level = 0
    debug.xla_llvm_disable_expensive_passes = True
    loaded = device.client.compile_and_load(text, xla_client.DeviceList((device,)), options)
    run: Callable[[Sequence[jax.Array]], Sequence[jax.Array]] = loaded.execute
    return run
