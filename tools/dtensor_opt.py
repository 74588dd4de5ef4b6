"""dtensor-opt: reads a module, runs passes, prints it.

`dtensor-opt --help` describes the options. It never imports jax, so it answers in about 0.3 s.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dtensor.dialect import build
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import (
    Diagnostic,
    LocatedError,
    Place,
    SourceText,
    did_you_mean,
    formatted,
    place_of,
)
from dtensor.dialect.encoding import BYTECODE_MAGIC
from dtensor.dialect.mlir import bytecode_of, ir
from dtensor.dialect.verify import verify_all, verify_module
from dtensor.passes.base import PassState
from dtensor.passes.cxx import CXX_PASSES
from dtensor.passes.pipeline import ALL, Instruments, Pipeline, note_of
from dtensor.passes.registry import registered
from dtensor.tools.command_line import (
    UsageError,
    carry_out,
    discard_output,
    internal_error,
    open_streams,
    read_input,
)
from dtensor.tools.opt_arguments import Arguments, parse_arguments
from dtensor.tools.opt_expected import Chunk, expected, mismatches, split

_NAME = "dtensor-opt"


def main() -> None:
    """Entry point of the command; exits the process."""
    open_streams()
    status = run(sys.argv[1:])
    discard_output()  # what is still there, after an error, or nothing
    os._exit(status)  # freeing MLIR's contexts at interpreter exit takes longer than it is worth


def run(argv: Sequence[str]) -> int:
    """Do what the command line asks, and return the exit status. Never raises."""
    return carry_out(_NAME, lambda: _run(parse_arguments(argv)), "--debug" in argv, _internal_error)


def _run(arguments: Arguments) -> int:
    if arguments.list_passes:
        from dtensor.tools.opt_listing import listing

        print(listing())
        return 0
    pipeline = Pipeline.parse(arguments.pipeline) if arguments.pipeline else Pipeline(())
    _check_pass_names(arguments, pipeline)
    _check_machine(arguments, pipeline)
    if arguments.dump_pipeline:
        print(f"Pass Manager with {len(pipeline.steps)} passes:\n{pipeline.text}", file=sys.stderr)
    source = read_input(arguments.file)
    session = _Session(arguments, pipeline, "<stdin>" if arguments.file == "-" else arguments.file)
    return session.run(source)


def _check_pass_names(arguments: Arguments, pipeline: Pipeline) -> None:
    for name in sorted((arguments.print_before | arguments.print_after) - {ALL}):
        if name not in pipeline.names:
            hint = did_you_mean(name, pipeline.names) or "; no passes run"
            raise UsageError(f"cannot print the module around '{name}': it does not run{hint}")


def _check_machine(arguments: Arguments, pipeline: Pipeline) -> None:
    no_plan = {*CXX_PASSES, *Pipeline.parse("dtensor-prepare").names}
    if arguments.machine is not None and no_plan.issuperset(pipeline.names):
        raise UsageError(
            "--machine is what a plan is made for, and no pass plans; give --dtensor-spmd as well"
        )


def _internal_error(bug: Exception) -> str:
    """One line: whose bug it is, in which pass, at which operation."""
    where, said = _place_in(bug), getattr(bug, "__notes__", ())
    for name in [cls.name for cls in registered() if note_of(cls.name) in said]:
        what = f"{type(bug).__name__}: {bug}".split("\n", 1)[0]
        return f"{where}error: pass {name} fails: {what}; --debug shows the traceback"
    return f"{where}{internal_error(bug)}"


def _place_in(bug: BaseException) -> str:
    """`file:line:col: ` of the operation that the innermost frame was at work on, if it tells."""
    places = [f"{_NAME}: "]
    for frame, _ in traceback.walk_tb(bug.__traceback__):
        for name in ("op", "operation", "call", "function"):
            value = frame.f_locals.get(name)
            with suppress(RuntimeError):  # of an operation that was erased
                place = place_of(value) if isinstance(value, ir.Operation) else None
                places += [f"{place}: "] if place is not None else []
    return places[-1]


@dataclass
class _Session:
    """One input, all its modules."""

    arguments: Arguments
    pipeline: Pipeline
    file: str
    found: list[Diagnostic] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    outputs: list[bytes] = field(default_factory=list)

    def run(self, source: bytes) -> int:
        """Run the pipeline on each module, write the output and what was found."""
        text = _text_of(source)
        chunks: list[Chunk | bytes] = [source]
        if self.arguments.split_input and text:
            chunks = [*split(text)]
        failed = False
        for chunk in chunks:
            failed |= not self._module(chunk)
        lines = SourceText({self.file: text})
        if self.arguments.verify_diagnostics:
            wrong = mismatches(expected(text), self.found, self.file)
            self._write_diagnostics(wrong, lines)
            failed = bool(wrong)
        else:
            self._write_diagnostics(self.found, lines)
            self._write_outputs()
        if self.arguments.timing:
            self._write_timing()
        return 1 if failed else 0

    def _module(self, chunk: Chunk | bytes) -> bool:
        """Read, transform and keep one module; whether that went well."""
        with make_context(), ir.Location.unknown():
            state = PassState(mesh=self.arguments.mesh, machine=self.arguments.machine)
            try:
                output = self._transformed(chunk, state)
            except LocatedError as wrong:
                self.found += wrong.diagnostics
                return False
            finally:
                self.found += _warnings(state, self.file)
            self.outputs.append(output)
            return True

    def _transformed(self, chunk: Chunk | bytes, state: PassState) -> bytes:
        from dtensor.passes.locations import forget_ids

        arguments = self.arguments
        start = time.perf_counter()
        if isinstance(chunk, Chunk):
            module = parse_module(chunk.text, self.file, chunk.first_line)
        else:
            module = parse_module(chunk, self.file)
        forget_ids(module)
        if arguments.mesh is not None:
            build.declare_mesh(arguments.mesh, module)
        start = self._took("(read)", start)
        verify_module(module)
        self._took("(verify)", start)
        instruments = Instruments(
            arguments.print_before,
            arguments.print_after,
            arguments.only_changed,
            arguments.print_failed,
            arguments.form,
            arguments.verify_each,
        )
        try:
            self.pipeline.run(module, state, instruments)
        finally:
            for name, seconds in instruments.seconds:
                self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        start = time.perf_counter()
        if self.pipeline.steps:
            verify_all(module)
        self._lock(state)
        start = self._took("(verify)", start)
        output = self._written(module)
        self._took("(write)", start)
        return output

    def _lock(self, state: PassState) -> None:
        """Write the lock file, and compare with one, where the command line asks for it."""
        lock, check = self.arguments.lock, self.arguments.check
        if lock is None and check is None:
            return
        from dtensor.passes.reports.lock import check_lock, lock_text

        report, mesh = state.cost_report, state.mesh
        if report is None or mesh is None:
            raise UsageError("--lock and --check need dtensor-report-cost, which does not run")
        if check is not None:
            text = Path(check).read_text(encoding="utf-8", errors="replace")
            check_lock(text, report.collectives, mesh, check)
        if lock is not None:
            Path(lock).write_text(lock_text(report.collectives, mesh), encoding="utf-8")

    def _took(self, name: str, start: float) -> float:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - start
        return now

    def _written(self, module: ir.Module) -> bytes:
        if self.arguments.bytecode:
            return bytecode_of(module)
        return self.arguments.form.text(module).encode()

    def _write_outputs(self) -> None:
        if self.arguments.output == "-" and (self.arguments.lock or self.arguments.check):
            return
        if self.arguments.bytecode and len(self.outputs) > 1:
            raise UsageError(
                f"--emit-bytecode writes one module, but the input has {len(self.outputs)}; "
                "split the file"
            )
        data = b"// -----\n".join(self.outputs)
        if self.arguments.output != "-":
            if self.outputs:
                Path(self.arguments.output).write_bytes(data)
            return
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def _write_diagnostics(self, items: Sequence[Diagnostic], lines: SourceText) -> None:
        for item in items:
            text = formatted(item, lines)
            print(text if item.place is not None else f"{self.file}: {text}", file=sys.stderr)

    def _write_timing(self) -> None:
        total = sum(self.seconds.values()) or 1.0
        print("// wall-clock time per pass", file=sys.stderr)
        for name, seconds in [*self.seconds.items(), ("total", total)]:
            print(
                f"//   {1e3 * seconds:9.2f} ms  {100 * seconds / total:5.1f} %  {name}",
                file=sys.stderr,
            )


def _text_of(source: bytes) -> str:
    """The input as text; empty if it is none, which reading it will report."""
    try:
        return "" if source.startswith(BYTECODE_MAGIC) else source.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _warnings(state: PassState, file: str) -> list[Diagnostic]:
    """What the passes warned of; the ledger knows places as text."""
    found = []
    for record in state.ledger.of_kind("warning"):
        name, _, rest = record.location.partition(" (")[0].partition(":")
        line, _, column = rest.partition(":")
        place = None
        if line.isdigit() and column.isdigit():
            known = file if os.path.basename(file) == name else name
            place = Place(known, int(line), int(column))
        found.append(Diagnostic("warning", place, record.text))
    return found


if __name__ == "__main__":
    main()
