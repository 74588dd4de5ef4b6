"""From a module of global shapes to the program of one device: the passes, in order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from dtensor.compiler.budget import Budget
from dtensor.compiler.define_op import bodies_of
from dtensor.compiler.options import CompileOptions
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import BudgetError, CompileError, MemoryLimitError, StrictError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import bytecode_of, ir
from dtensor.dialect.names import ARG_ATTRS, RES_ATTRS
from dtensor.passes.base import PassState
from dtensor.passes.cost.machine import Machine
from dtensor.passes.functions import check_boundary_layouts, main_function, set_boundary_layouts
from dtensor.passes.ledger import Ledger
from dtensor.passes.pipeline import ALL, Instruments, Pipeline
from dtensor.passes.pipelines import pipeline_text
from dtensor.passes.registry import load_passes
from dtensor.passes.reports.cost import Collective
from dtensor.passes.reports.memory import MemoryReport, ReportMemoryPass

# Whoever imports the driver compiles. So the passes load with it, and not within the first call.
load_passes()

After = Callable[[str, ir.Module], None]
# Writing a location takes longer than all passes of its operation; what it frees is one context. So
# it pays for the many small programs that single operations are, and not for a large one.
_FEW_OPERATIONS = 64
_ATTEMPTS = 3  # to need less memory
_ELEMENTS = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}


@dataclass(frozen=True)
class DriverResult:
    """What the passes made of a program.

    Attributes:
        bytecode: StableHLO of one device, with locations.
        filename: what messages call the source.
        mesh: the mesh it is for.
        arg_layouts: layout of each argument.
        result_layouts: layout of each result.
        ledger: why.
        collectives: every planned collective, in program order.
        local_flops: floating-point operations per device and execution, loops counted in full.
        donated: indices of arguments whose memory the results may take; None if the pipeline does
            not report memory.
        argument_names: what messages call the arguments; their numbers if empty.
        runs_as_written: whether the devices run kernels in the program's order.
    """

    bytecode: bytes
    filename: str
    mesh: Mesh
    arg_layouts: tuple[Layout, ...]
    result_layouts: tuple[Layout, ...]
    ledger: Ledger
    collectives: tuple[Collective, ...]
    local_flops: float
    donated: tuple[int, ...] | None
    argument_names: tuple[str, ...]
    runs_as_written: bool

    @cached_property
    def memory(self) -> MemoryReport | None:
        """What one device holds, by the plan, made when asked for; None if not reported."""
        if self.donated is None:
            return None
        with make_context():
            module = parse_module(self.bytecode, self.filename)
            from dtensor.passes.reports.peak import memory_report

            function = main_function(module)
            return memory_report(function, self.donated, self.argument_names, self.runs_as_written)


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
    machine: Machine | None = None,
    platform: str | None = None,
    before: Callable[[str], None] | None = None,
) -> DriverResult:
    """Run the pipeline on a module.

    Under `strict`, where the cheapest plan moves what nobody asked for, one that does not is looked
    for.

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
        machine: the machine to plan for where the options name none.
        platform: what jax calls the devices that collectives and bodies of defined operations are
            written for; None where they are not known, and bodies are for jax's default.
        before: called with the name of each pass before it runs.

    Raises:
        LocatedError: the program or a layout is at fault; the message names the line.
        StrictError: something was done that nobody asked for, or one device of the machine would
            hold more than it has, under `strict`.
        BudgetError: it sends more, or otherwise, than `budget` allows.
        MemoryLimitError: one device would hold more than `max_bytes_per_device`.
    """

    def attempt(is_strict: bool, bytes_to_free: float) -> _Attempt:
        module = parse_module(source, filename)
        for side, layouts in ((ARG_ATTRS, in_layouts), (RES_ATTRS, out_layouts)):
            check_boundary_layouts(main_function(module), side, layouts)
            set_boundary_layouts(main_function(module), side, layouts)
        state = replace(
            state_of(options, mesh, machine, platform),
            is_strict=is_strict,
            bytes_to_free=bytes_to_free,
            donated=donated,
            argument_names=argument_names,
            result_names=result_names,
        )
        try:
            pipeline.run(module, state, instruments)
        except MemoryLimitError as refused:
            return _Attempt(module, state, refused)
        return _Attempt(module, state, None)

    def run(is_strict: bool = False) -> DriverResult:
        with make_context(), ir.Location.unknown():
            module, state = _within_memory(functools.partial(attempt, is_strict))
            _check(state, options)
            if len(state.ledger.op_locations) <= _FEW_OPERATIONS:
                state.ledger.detach()
            assert state.cost_report is not None
            assert state.mesh is not None
            return DriverResult(
                bytecode_of(module),
                filename,
                state.mesh,
                tuple(layout for layout in state.arg_layouts if layout is not None),
                tuple(layout for layout in state.result_layouts if layout is not None),
                state.ledger,
                state.cost_report.collectives,
                state.cost_report.local_flops,
                tuple(donated) if ReportMemoryPass.name in pipeline.names else None,
                tuple(argument_names),
                state.runs_as_written,
            )

    pipeline = Pipeline.parse(options.pipeline or pipeline_text("dtensor-spmd"))
    _check_pipeline(pipeline, options)
    _check_printed(options.print_ir_after, pipeline)
    instruments = Instruments(
        print_after=frozenset(options.print_ir_after), before=before, after=after
    )
    try:
        return run()
    except StrictError as refused:
        if options.strict is not True:
            raise
        # The cheapest plan moves what nobody asked for. A dearer one may not.
        try:
            return run(is_strict=True)
        except CompileError:
            raise refused from None


def state_of(
    options: CompileOptions, mesh: Mesh | None, machine: Machine | None, platform: str | None
) -> PassState:
    """What passes are told by the options; the others as of `compile_module`."""
    element = options.reduce_dtype
    return PassState(
        mesh=mesh,
        cost=options.cost,
        machine=machine if options.machine is None else Machine.of(options.machine),
        effort=options.effort,
        reduce_element=None if element is None else _ELEMENTS[element],
        max_bytes_per_device=options.max_bytes_per_device,
        definitions=options.ops,
        bodies=bodies_of(options.ops, platform),
        platform=platform,
    )


class _Attempt(NamedTuple):
    """A program after the passes, and what dtensor-report-memory refused it for, if it did."""

    module: ir.Module
    state: PassState
    refused: MemoryLimitError | None


def _within_memory(attempt: Callable[[float], _Attempt]) -> tuple[ir.Module, PassState]:
    """The program that needs no more than one device may hold, or of those tried the least.

    What it needs less, in bytes, is the argument of `attempt`: the price is that values are
    gathered again.
    """
    best, less = attempt(0.0), 0.0
    for _ in range(_ATTEMPTS):
        over = best.state.bytes_over
        if not (over and best.state.runs_as_written):
            break
        less += over
        other = attempt(less)
        if other.state.bytes_over >= over:
            break
        best = other
    if best.refused is not None:
        raise best.refused
    return best.module, best.state


def _check_pipeline(pipeline: Pipeline, options: CompileOptions) -> None:
    """Refuse a pipeline that leaves out what the result, or an option, is made by."""
    needed = {
        "dtensor-import": "which settles the mesh",
        "dtensor-report-cost": "which plans are read from",
        "dtensor-lower": "which layouts of arguments and results are read from",
    }
    if options.reduce_dtype is not None:
        needed["dtensor-widen-reductions"] = "which reduce_dtype is for"
    if options.max_bytes_per_device is not None:
        needed[ReportMemoryPass.name] = "which max_bytes_per_device is for"
    for name, why in needed.items():
        if name not in pipeline.names:
            raise CompileError(
                f"the pipeline does not run {name}, {why}; leave CompileOptions.pipeline out, or "
                "include it"
            )


def _check_printed(names: Sequence[str], pipeline: Pipeline) -> None:
    for name in names:
        if name != ALL and name not in pipeline.names:
            hint = did_you_mean(name, pipeline.names)
            raise CompileError(f"print_ir_after names '{name}', which does not run{hint}")


def _check(state: PassState, options: CompileOptions) -> None:
    """Refuse a program that does what the options do not allow."""
    assert state.cost_report is not None
    collectives = state.cost_report.collectives
    if options.strict:
        _be_strict(state.ledger, options.strict, collectives)
    if options.budget is not None:
        options.budget.check("the program", collectives)


def _be_strict(ledger: Ledger, strict: bool | Budget, collectives: Sequence[Collective]) -> None:
    """Refuse what nobody asked for.

    A budget says what may be sent: relayouts that keep to it are asked for, and so is what is
    computed alike because dividing it would send more.
    """
    for record in ledger.of_kind("over_memory"):
        raise StrictError(f"strict: {record.text}")
    unasked = ledger.unasked()
    if isinstance(strict, Budget):
        moves = {record.id for record in unasked if record.kind == "relayout"}
        sent = [c for c in collectives if moves & set(c.records)]
        try:
            strict.check("strict: what nobody asked for", sent)
        except BudgetError as wrong:
            raise StrictError(f"{wrong}; ask for it with dtensor.relayout") from None
        unasked = [record for record in unasked if record.kind not in ("relayout", "not_parallel")]
    if not unasked:
        return
    first = unasked[0]
    where = f"{first.location}: " if first.location else ""
    more = f" (and {len(unasked) - 1} more)" if len(unasked) > 1 else ""
    raise StrictError(
        f"{where}strict: {first.text}{more}; ask for it with dtensor.relayout, or leave out strict"
    )
