"""From a module of global shapes to the program of one device: the passes, in order."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dtensor.compiler.memory import check_memory
from dtensor.compiler.options import CompileOptions
from dtensor.compiler.report import Collective, local_cost
from dtensor.dialect.attributes import layout_attr, layout_of
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import error
from dtensor.dialect.errors import CompileError, StrictError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import ARG_ATTRS, LAYOUT, RES_ATTRS
from dtensor.passes.base import PassState
from dtensor.passes.functions import entries, main_function, set_entries, tensor_shape
from dtensor.passes.ledger import Ledger
from dtensor.passes.pipeline import Instruments, Pipeline
from dtensor.passes.pipelines import pipeline_text

After = Callable[[str, ir.Module], None]
_LAST_WITH_LAYOUTS = "dtensor-optimize-collectives"
# Writing a location takes longer than all passes of its operation; what it frees is one context. So
# it pays for the many small programs that single operations are, and not for a large one.
_FEW_OPERATIONS = 64
_ELEMENTS = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}


@dataclass(frozen=True)
class DriverResult:
    """What the passes made of a program.

    Attributes:
        bytecode: StableHLO of one device, with locations.
        mesh: the mesh it is for.
        arg_layouts: layout of each argument.
        result_layouts: layout of each result.
        ledger: why.
        collectives: every planned collective, in program order.
        local_flops: floating-point operations per device and execution, loops counted in full.
    """

    bytecode: bytes
    mesh: Mesh
    arg_layouts: tuple[Layout, ...]
    result_layouts: tuple[Layout, ...]
    ledger: Ledger
    collectives: tuple[Collective, ...]
    local_flops: float


def compile_module(
    source: bytes | str,
    filename: str,
    mesh: Mesh | None,
    in_layouts: Sequence[Layout | None],
    out_layouts: Sequence[Layout | None],
    options: CompileOptions,
    after: After | None = None,
    donated: Sequence[int] = (),
    argument_names: Sequence[str] = (),
    result_names: Sequence[str] = (),
) -> DriverResult:
    """Run the pipeline on a module.

    Args:
        source: StableHLO, as text or bytecode; plain, or annotated with layouts.
        filename: what messages call `source`.
        mesh: the mesh; None where the module has one.
        in_layouts: layout of each argument; None leaves it to the annotation, or the compiler.
        out_layouts: layout of each result, likewise.
        options: how to compile.
        after: called with the name of each pass and the module after it.
        donated: indices of arguments whose memory the results may take.
        argument_names: what messages call the arguments; their numbers if empty.
        result_names: likewise the results.

    Raises:
        LocatedError: the program or a layout is at fault; the message names the line.
        StrictError: something was done that nobody asked for, under `strict`.
        MemoryLimitError: one device would hold more than `max_bytes_per_device`.
    """
    with make_context(), ir.Location.unknown():
        module = parse_module(source, filename)
        put_layouts(main_function(module), ARG_ATTRS, in_layouts, "argument")
        put_layouts(main_function(module), RES_ATTRS, out_layouts, "result")
        state = PassState(
            mesh=mesh,
            cost=options.cost,
            argument_names=argument_names,
            result_names=result_names,
        )
        if mesh is not None:
            state.meshes = {mesh.symbol: mesh}
        found: list[_Plan] = []

        def watch(name: str, current: ir.Module) -> None:
            if name == _LAST_WITH_LAYOUTS:
                assert state.mesh is not None
                main = main_function(current)
                found.append(
                    _Plan(
                        *local_cost(main, state.meshes, state.ledger),
                        _layouts(main, ARG_ATTRS, state.meshes),
                        _layouts(main, RES_ATTRS, state.meshes),
                    )
                )
                if options.max_bytes_per_device is not None:
                    check_memory(main, options.max_bytes_per_device, donated)
            if after is not None:
                after(name, current)

        pipeline = Pipeline.parse(_pipeline_text(options))
        instruments = Instruments(print_after=frozenset(options.print_ir_after), after=watch)
        pipeline.run(module, state, instruments)
        if not found or state.mesh is None:
            raise CompileError(
                f"the pipeline does not run {_LAST_WITH_LAYOUTS}, which plans are read from; "
                "leave CompileOptions.pipeline out, or include it"
            )
        if options.strict:
            _be_strict(state.ledger)
        plan = found[-1]
        if len(state.ledger.op_locations) <= _FEW_OPERATIONS:
            state.ledger.detach()
        return DriverResult(
            _bytecode(module),
            state.mesh,
            plan.arg_layouts,
            plan.result_layouts,
            state.ledger,
            plan.collectives,
            plan.local_flops,
        )


def _pipeline_text(options: CompileOptions) -> str:
    """The passes to run, under these options."""
    text = options.pipeline or pipeline_text("dtensor-spmd")
    if options.reduce_dtype is not None:
        element = _ELEMENTS[options.reduce_dtype]
        widen = f"dtensor-widen-reductions{{element={element}}}, {_LAST_WITH_LAYOUTS}"
        text = text.replace(_LAST_WITH_LAYOUTS, widen, 1)
    return text


@dataclass(frozen=True)
class _Plan:
    """What is read from the local program before it is lowered."""

    collectives: tuple[Collective, ...]
    local_flops: float
    arg_layouts: tuple[Layout, ...]
    result_layouts: tuple[Layout, ...]


def put_layouts(
    function: ir.Operation, name: str, layouts: Sequence[Layout | None], what: str
) -> None:
    """Annotate arguments or results with the layouts of the call; checked against their shapes."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = type_.inputs if name == ARG_ATTRS else type_.results
    if len(layouts) != len(types):
        error(function, f"{len(layouts)} layouts for {len(types)} {what}s; give one for each")
    attributes = entries(function, name)
    for i, (layout, tensor) in enumerate(zip(layouts, types, strict=True)):
        if layout is None:
            continue
        problem = layout.problem(tensor_shape(tensor) or ()) or layout.border_problem()
        if problem is not None:
            error(function, f"{what} {i}: {problem}")
        attributes[i][LAYOUT] = layout_attr(layout)
    set_entries(function, name, attributes)


def _layouts(function: ir.Operation, name: str, meshes: dict[str, Mesh]) -> tuple[Layout, ...]:
    """The layouts of a function's arguments or results."""
    return tuple(layout_of(entry[LAYOUT], meshes) for entry in entries(function, name))


def _be_strict(ledger: Ledger) -> None:
    unasked = ledger.unasked()
    if not unasked:
        return
    first = unasked[0]
    where = f"{first.location}: " if first.location else ""
    more = f" (and {len(unasked) - 1} more)" if len(unasked) > 1 else ""
    raise StrictError(f"{where}strict: {first.text}{more}")


def _bytecode(module: ir.Module) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()
