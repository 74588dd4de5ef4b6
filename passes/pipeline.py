"""Pipelines: our own and C++ passes in one line, checked before and measured while they run."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Final, TextIO

from dtensor.dialect.attributes import read_meshes
from dtensor.dialect.diagnostics import LocatedError, did_you_mean, error, from_mlir
from dtensor.dialect.errors import CompileError
from dtensor.dialect.functions import entry_function
from dtensor.dialect.mlir import ir, ops_of, passmanager
from dtensor.dialect.names import FUNC
from dtensor.dialect.ops import OPS
from dtensor.dialect.verify import verify_all
from dtensor.passes import cxx
from dtensor.passes.base import Pass, PassOptionError, PassState
from dtensor.passes.form import Form
from dtensor.passes.nesting import refuse_deep_regions
from dtensor.passes.pipeline_text import Entry, PipelineError, parse_pipeline
from dtensor.passes.pipelines import PIPELINES
from dtensor.passes.registry import PASSES, is_registered, pass_class, registered

ALL: Final = "all"
_ANCHORS = (cxx.MODULE, cxx.FUNC, cxx.ANY)


@dataclass(frozen=True)
class OwnStep:
    """A pass of ours, with its options."""

    name: str
    transformation: Pass

    @property
    def text(self) -> str:
        """The pass with its options, as a pipeline names it."""
        values = [
            (each.name, getattr(self.transformation, each.name))
            for each in fields(self.transformation)
        ]
        options = " ".join(f"{name.replace('_', '-')}={_written(v)}" for name, v in values)
        return f"{self.name}{{{options}}}" if options else self.name


def _written(value: object) -> str:
    """An option's value as a pipeline writes it."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class CxxStep:
    """A C++ pass, as MLIR's pipeline parser takes it."""

    name: str
    text: str


PipelineStep = OwnStep | CxxStep


@dataclass
class Instruments:
    """What to observe while a pipeline runs.

    Attributes:
        print_before: names of passes before which the module is printed; `ALL` is every one.
        print_after: the same, after.
        only_changed: print it after a pass only if the pass changed it.
        print_failed: print it after a pass that fails.
        form: how it is printed.
        verify_each: verify the module after each pass.
        before: called with the name of each pass before it runs.
        after: called with the name of each pass and the module after it.
        output: where modules are printed; None is stderr.
        seconds: filled in: name and wall-clock seconds of each pass, in order.
    """

    print_before: frozenset[str] = frozenset()
    print_after: frozenset[str] = frozenset()
    only_changed: bool = False
    print_failed: bool = False
    form: Form = field(default_factory=Form)
    verify_each: bool = False
    before: Callable[[str], None] | None = None
    after: Callable[[str, ir.Module], None] | None = None
    output: TextIO | None = None
    seconds: list[tuple[str, float]] = field(default_factory=list)

    def show_before(self, name: str, module: ir.Module) -> str:
        """Print the module if asked to; what it is, where that is needed afterwards."""
        if self._is_wanted(name, self.print_before):
            self._print(f"Before {name}", self.form.text(module))
        is_compared = self.only_changed and self._is_wanted(name, self.print_after)
        return self.form.text(module) if is_compared else ""

    def show_after(self, name: str, module: ir.Module, before: str) -> None:
        """Print the module if asked to; `before` is what `show_before` gave."""
        if self._is_wanted(name, self.print_after):
            text = self.form.text(module)
            if not self.only_changed or text != before:
                self._print(f"After {name}", text)

    def show_failed(self, name: str, module: ir.Module) -> None:
        """Print the module as a pass that failed left it, if asked to."""
        if self.print_failed:
            self._print(f"After {name} Failed", self.form.text(module))

    def _is_wanted(self, name: str, names: frozenset[str]) -> bool:
        return ALL in names or name in names

    def _print(self, title: str, text: str) -> None:
        output = self.output or sys.stderr
        output.write(f"// -----// IR Dump {title} //----- //\n{text}\n")


@dataclass(frozen=True)
class Pipeline:
    """Passes in the order they run."""

    steps: tuple[PipelineStep, ...]

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """The pipeline that `text` writes: `builtin.module(a{opt=1}, func.func(cse))` or `a, cse`.

        Raises:
            PipelineError: malformed, an unknown pass or option, or a pass inside an anchor that it
                does not run on; the position says where.
        """
        return cls(_parsed(text, registered()))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the passes, in order."""
        return tuple(step.name for step in self.steps)

    def run(
        self, module: ir.Module, state: PassState, instruments: Instruments | None = None
    ) -> None:
        """Run every pass on `module`, in place.

        An exception that is a bug of a pass comes out as it is, with a note that names the pass.

        Raises:
            LocatedError: the program cannot be transformed, or a pass left it invalid.
        """
        watch = instruments or Instruments()
        _read_meshes_into(state, module)
        with _collector_paused():
            self._run(module, state, watch)

    @property
    def text(self) -> str:
        """The pipeline as `parse` takes it, each option written out."""
        return f"{cxx.MODULE}({', '.join(step.text for step in self.steps)})"

    def _run(self, module: ir.Module, state: PassState, watch: Instruments) -> None:
        for step in self.steps:
            if watch.before is not None:
                watch.before(step.name)
            before = watch.show_before(step.name, module)
            start = time.perf_counter()
            try:
                _run_step(step, module, state)
                watch.seconds.append((step.name, time.perf_counter() - start))
                if watch.verify_each or is_registered(step.name):
                    _verify_after(step.name, module)
            except Exception as failure:
                watch.show_failed(step.name, module)
                if isinstance(failure, RecursionError) and not is_registered(step.name):
                    refuse_deep_regions(step.name, module)
                failure.add_note(note_of(step.name))
                raise
            watch.show_after(step.name, module, before)
            if watch.after is not None:
                watch.after(step.name, module)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Passes make many objects and few cycles; a full collection walks all that jax keeps alive."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def note_of(name: str) -> str:
    """The note that an exception of the pass `name` carries."""
    return f"while running pass {name}"


def _run_step(step: PipelineStep, module: ir.Module, state: PassState) -> None:
    if isinstance(step, OwnStep):
        if step.transformation.needs_mesh:
            _settle_mesh(step.name, module, state)
        if is_registered(step.name):
            _run_registered(step, module, state)
        else:
            step.transformation.run(module, state)
        return
    if step.name == "inline":
        _refuse_unknown_regions(module.operation)
    # No handle of an operation may outlive a C++ pass: touching one that was erased aborts.
    state.forget_ir()
    state.plan_checker = None
    manager = passmanager.PassManager.parse(f"{cxx.MODULE}({step.text})")
    try:
        manager.run(module.operation)
    except ir.MLIRError as failure:
        raise LocatedError.of(from_mlir(failure)) from None


def _run_registered(step: OwnStep, module: ir.Module, state: PassState) -> None:
    """Run a user's pass: what was read of the module before may be gone after it."""
    had_entry = entry_function(module) is not None
    try:
        step.transformation.run(module, state)
    except SystemExit as end:
        raise CompileError(
            f"pass {step.name} ends the process (exit status {end.code}); raise an error in it, "
            "such as dtensor.dialect.diagnostics.error"
        ) from end
    state.forget_ir()
    state.plan_checker = None
    if had_entry and entry_function(module) is None:
        error(module.operation, f"pass {step.name} erases the entry function; leave it there")


def _refuse_unknown_regions(owner: ir.Operation) -> None:
    """C++ `inline` ends the process at a region of an operation that it does not know."""
    from dtensor.passes.program import CONTROL  # brings rules, which --help needs none of

    for region in owner.regions:
        for block in region:
            for op in ops_of(block):
                name = op.name
                known = OPS.get(name)
                if known is not None and known.REGIONS:
                    error(
                        op,
                        f"'inline' cannot read the region of '{name}', which passes after it "
                        "make; run those that are left by name",
                    )
                if name == FUNC or name in CONTROL:
                    _refuse_unknown_regions(op)


def _verify_after(name: str, module: ir.Module) -> None:
    try:
        verify_all(module)
    except LocatedError as wrong:
        found = [
            replace(item, message=f"{item.message}; pass {name} left the module so")
            for item in wrong.diagnostics
        ]
        raise LocatedError.of(found) from None


def _settle_mesh(name: str, module: ir.Module, state: PassState) -> None:
    from dtensor.passes.functions import main_function

    if len(state.meshes) > 1:
        known = " and ".join(f"@{symbol}" for symbol in state.meshes)
        problem = f"{name} reads a module of one mesh, this has {known}; run dtensor-import before"
        error(main_function(module), problem)
    state.mesh = state.mesh or next(iter(state.meshes.values()), None)
    if state.mesh is None:
        problem = "give the module a dtensor.mesh, or pass --mesh x=2,y=4 (in Python mesh=)"
        if any(op.name == "sdy.mesh" for op in module.body.operations):
            problem = f"{name} does not read Shardy's; run dtensor-import before, which does"
        error(main_function(module), f"no mesh: {problem}")


def _read_meshes_into(state: PassState, module: ir.Module) -> None:
    """Know the mesh of a module that is half-way through the pipeline."""
    found = read_meshes(module)
    state.meshes = {**state.meshes, **found}
    if state.mesh is None and len(found) == 1:
        state.mesh = next(iter(found.values()))


# From text to steps.


@lru_cache(maxsize=32)  # small programs are planned in little more than this takes
def _parsed(text: str, _: tuple[type[Pass], ...]) -> tuple[PipelineStep, ...]:
    entries = parse_pipeline(text)
    if len(entries) == 1 and entries[0].name in (cxx.MODULE, cxx.ANY):
        entries = entries[0].inner or ()
    return tuple(_steps(text, entries))


def _steps(text: str, entries: Sequence[Entry], anchor: str = cxx.MODULE) -> Iterator[PipelineStep]:
    for entry in entries:
        if entry.inner is not None:
            if anchor != cxx.MODULE or entry.name not in (cxx.FUNC, cxx.ANY):
                hint = "" if entry.name in _ANCHORS else did_you_mean(entry.name, _ANCHORS)
                raise PipelineError(
                    text, entry.position, f"'{entry.name}' cannot hold passes here{hint}"
                )
            yield from _steps(text, entry.inner, entry.name)
        elif entry.name in PIPELINES:
            yield from _named(text, entry, anchor)
        elif entry.name in PASSES:
            yield _own(text, entry, anchor)
        else:
            yield _cxx(text, entry, anchor)


def _named(text: str, entry: Entry, anchor: str) -> Iterator[PipelineStep]:
    if anchor != cxx.MODULE or entry.options:
        what = "takes no options" if entry.options else f"runs on the module, not in {anchor}"
        raise PipelineError(text, entry.position, f"pipeline '{entry.name}' {what}")
    inner = ", ".join(stage.text for stage in PIPELINES[entry.name])
    yield from Pipeline.parse(inner).steps


def _own(text: str, entry: Entry, anchor: str) -> OwnStep:
    if anchor != cxx.MODULE:
        raise PipelineError(
            text, entry.position, f"pass '{entry.name}' runs on the module; move it out of {anchor}"
        )
    try:
        return OwnStep(entry.name, pass_class(entry.name).from_options(entry.options))
    except PassOptionError as wrong:
        raise PipelineError(text, entry.position, str(wrong)) from None


def _cxx(text: str, entry: Entry, anchor: str) -> CxxStep:
    name = entry.name
    needed = cxx.CXX_PASSES.get(name)
    if needed is None:
        known = [*PASSES, *PIPELINES, *cxx.CXX_PASSES]
        hint = did_you_mean(name, known)
        if "did you mean" not in hint:
            hint = "; dtensor-opt --list-passes lists them"
        raise PipelineError(text, entry.position, f"unknown pass '{name}'{hint}")
    if needed == cxx.MODULE and anchor == cxx.FUNC:
        raise PipelineError(
            text, entry.position, f"pass '{name}' runs on the module; move it out of {anchor}"
        )
    written = f"{name}{{{entry.option_text}}}" if entry.option_text else name
    if needed == cxx.FUNC or anchor == cxx.FUNC:
        written = f"{cxx.FUNC}({written})"
    try:
        with (
            ir.Context() as scratch
        ):  # only to check the options; passes are known to every context
            passmanager.PassManager.parse(f"{cxx.MODULE}({written})", scratch)
    except ValueError as wrong:
        reason = _option_problem(str(wrong))
        raise PipelineError(text, entry.position, f"pass '{name}': {reason}") from None
    return CxxStep(name, written)


def _option_problem(message: str) -> str:
    """What MLIR says about an option, without its own copy of the pipeline."""
    lines = [line.strip() for line in message.split("\n") if line.strip()]
    told = [line.split("error: ", 1)[1] for line in lines if "error: " in line]
    reason = told[-1] if told else (lines[0] if lines else "its options are malformed")
    return reason.removeprefix("<Pass-Options-Parser>: ")
