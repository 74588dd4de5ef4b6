"""The command line of dtensor-opt."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dtensor.dialect.mesh import Mesh
from dtensor.passes.cxx import CXX_PASSES
from dtensor.passes.form import Form
from dtensor.passes.pipelines import PIPELINES, SUMMARIES
from dtensor.passes.registry import PASSES, registered
from dtensor.tools import add_version
from dtensor.tools.command_line import CommandLine, UsageError, file_name, parse_mesh

if TYPE_CHECKING:
    from dtensor.passes.cost.machine import Machine

_USAGE = "dtensor-opt [FILE] [passes] [options]"
_DESCRIPTION = """\
Reads a StableHLO module, runs passes on it, prints it. FILE is MLIR text or bytecode: plain, with
#dtensor layouts, or with sdy annotations, as jax.jit(f).lower(x).as_text() prints it; - is stdin.
"""
_EXAMPLES = """\
examples:
  dtensor-opt step.mlir --dtensor-spmd                the program of one device, with collectives
  dtensor-opt step.mlir --mesh data=2,model=4 --dtensor-prepare --dtensor-import
  dtensor-opt step.mlir -p dtensor-propagate,cse      passes by name, in order
  dtensor-opt step.mlir --dtensor-spmd --mlir-print-ir-after=dtensor-propagate
  dtensor-opt step.mlir --pass-pipeline='builtin.module(dtensor-lower{keep-layouts=true}, cse)'
  dtensor-opt step.mlir --check comm.lock             fails if the plan sends something else
  jax_program.py | dtensor-opt --canonicalize --cse   C++ passes have flags as well

exit status: 0 the module was printed; 1 there was an error.
"""


@dataclass(frozen=True)
class Arguments:
    """What the command line asks for."""

    file: str
    output: str
    pipeline: str
    mesh: Mesh | None
    machine: Machine | None
    split_input: bool
    verify_diagnostics: bool
    print_before: frozenset[str]
    print_after: frozenset[str]
    lock: str | None
    check: str | None
    only_changed: bool
    print_failed: bool
    form: Form
    dump_pipeline: bool
    timing: bool
    verify_each: bool
    bytecode: bool
    list_passes: bool
    debug: bool


def _parser() -> argparse.ArgumentParser:
    parser = CommandLine("dtensor-opt", _DESCRIPTION, _EXAMPLES, _USAGE)
    add = parser.add_argument
    add(
        "file",
        type=file_name,
        nargs="?",
        default="-",
        metavar="FILE",
        help="input; - or nothing is stdin",
    )
    add(
        "-o", dest="output", type=file_name, default="-", metavar="FILE", help="output; - is stdout"
    )
    add("--emit-bytecode", action="store_true", help="write MLIR bytecode, not text")
    add("--mesh", metavar="x=2,y=4", help="mesh to compile for, major axis first, in devices")
    add("--machine", metavar="h100", help="machine to plan for: a name, or a TOML file")
    add(
        "--lock",
        type=file_name,
        metavar="FILE",
        help="plan, and write what is sent to FILE, not the module",
    )
    add(
        "--check",
        type=file_name,
        metavar="FILE",
        help="plan, and fail if something else is sent than FILE says",
    )
    _add_pass_flags(parser)
    group = parser.add_argument_group("looking inside")
    add = group.add_argument
    add("--mlir-print-ir-before", metavar="PASS,...", help="print the module before these passes")
    add("--mlir-print-ir-after", metavar="PASS,...", help="print the module after these passes")
    add("--mlir-print-ir-before-all", action="store_true", help="print it before every pass")
    add("--mlir-print-ir-after-all", action="store_true", help="print it after every pass")
    add("--mlir-print-ir-after-change", action="store_true", help="only where a pass changed it")
    add("--mlir-print-ir-after-failure", action="store_true", help="print it after one that fails")
    add("--mlir-print-op-generic", action="store_true", help='print as "stablehlo.add"(...)')
    add(
        "--mlir-elide-elementsattrs-if-larger",
        metavar="N",
        type=_count,
        help="leave out the elements of constants that have more",
    )
    add("--dump-pass-pipeline", action="store_true", help="print the passes with their options")
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    add("--mlir-timing", action="store_true", help="print seconds per pass to stderr")
    add("--verify-each", action="store_true", help="verify the module after each pass")
    group = parser.add_argument_group("testing")
    add = group.add_argument
    add("--split-input-file", action="store_true", help="modules are separated by // ----- lines")
    add(
        "--verify-diagnostics",
        action="store_true",
        help="succeed if exactly the expected-error {{...}} comments' errors are found",
    )
    add("--debug", action="store_true", help="show the traceback of an internal error")
    add_version(parser)
    return parser


def _add_pass_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of single passes are only listed here; `_pass_flags` reads them, in order."""
    group = parser.add_argument_group("passes, in the order given")
    add = group.add_argument
    add("-p", "--passes", action="append", default=[], metavar="a,b", help="passes by name")
    add("--pass-pipeline", metavar="TEXT", help="builtin.module(a{option=1}, func.func(cse), ...)")
    for name, summary in SUMMARIES.items():
        add(f"--{name}", action="store_true", help=summary)
    for name in PASSES:
        add(f"--{name}", nargs=0, action=_Never, help=argparse.SUPPRESS)
    own = " ".join(f"--{name}" for name in PASSES)
    group.description = (
        f"One flag per pass, options after '=': {own}, and one per C++ pass, such as "
        "--canonicalize or --cse. --dtensor-lower='keep-layouts=true' sets an option."
    )
    add(
        "--load-pass-plugin",
        action="append",
        metavar="MODULE",
        help="import passes of your own first: a module's name, or mine.py; docs/writing-a-pass.md",
    )
    add("--list-passes", action="store_true", help="describe every pass and its options, and exit")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of elements")
    return int(text)


class _Never(argparse.Action):
    """A flag that was taken out of the command line before argparse saw it."""

    def __call__(self, *_: object, **__: object) -> None:
        raise AssertionError("pass flags are read before argparse")


def _machine(name: str) -> Machine:
    from dtensor.passes.cost.machine import Machine  # costs are not needed to print the help

    return Machine.of(name)


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read the command line; `--help` prints and exits.

    Raises:
        UsageError: it cannot be followed.
    """
    _load_plugins(argv)
    flags, rest = _pass_flags(argv)
    found = _parser().parse_args(rest)
    ways = [bool(flags), bool(found.passes), found.pass_pipeline is not None]
    if sum(ways) > 1:
        raise UsageError("give passes as flags, by -p, or by --pass-pipeline, but one way only")
    pipeline = found.pass_pipeline or ", ".join(found.passes or flags)
    if (found.lock or found.check) and not pipeline:
        pipeline = "dtensor-spmd"
    return Arguments(
        file=found.file,
        output=found.output,
        pipeline=pipeline,
        mesh=parse_mesh(found.mesh) if found.mesh is not None else None,
        machine=_machine(found.machine) if found.machine is not None else None,
        split_input=found.split_input_file,
        verify_diagnostics=found.verify_diagnostics,
        print_before=_pass_set(found.mlir_print_ir_before, found.mlir_print_ir_before_all),
        print_after=_pass_set(
            found.mlir_print_ir_after,
            found.mlir_print_ir_after_all
            or (found.mlir_print_ir_after_change and not found.mlir_print_ir_after),
        ),
        lock=found.lock,
        check=found.check,
        only_changed=found.mlir_print_ir_after_change,
        print_failed=found.mlir_print_ir_after_failure,
        form=Form(
            found.mlir_print_debuginfo,
            found.mlir_print_op_generic,
            found.mlir_elide_elementsattrs_if_larger,
        ),
        dump_pipeline=found.dump_pass_pipeline,
        timing=found.mlir_timing,
        verify_each=found.verify_each,
        bytecode=found.emit_bytecode,
        list_passes=found.list_passes,
        debug=found.debug,
    )


_PLUGIN = "--load-pass-plugin"


def _load_plugins(argv: Sequence[str]) -> None:
    """Import what registers passes, before flags of single passes are looked up."""
    words = [*argv[: argv.index("--")]] if "--" in argv else [*argv]
    for place, word in enumerate(words):
        flag, _, value = word.partition("=")
        if flag == _PLUGIN:
            _load_plugin(value or "".join(words[place + 1 : place + 2]))


def _load_plugin(name: str) -> None:
    if not name:
        raise UsageError(f"{_PLUGIN} names no module; give one, or a file such as mine.py")
    try:
        if name.endswith(".py"):
            _import_file(Path(name))
        else:
            importlib.import_module(name)
    except (Exception, SystemExit) as failure:
        what = f"{type(failure).__name__}: {failure}"
        raise UsageError(f"{_PLUGIN} cannot import '{name}': {what}") from failure
    if not registered():  # else it may have been imported before, or import what was
        raise UsageError(
            f"'{name}' registers no pass; put @register_pass of dtensor.passes.registry before it"
        )


def _import_file(path: Path) -> None:
    """Import a file as Python runs a script: what stands beside it can be imported."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"dtensor_plugin_{path.stem}", path)
    assert spec is not None  # its name ends with .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)


def _pass_flags(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags such as `--dtensor-lower='keep-layouts=true'` as pipeline text, and the other words."""
    flags: list[str] = []
    rest: list[str] = []
    for index, word in enumerate(argv):
        if word == "--":
            rest += argv[index:]
            break
        name, _, options = word.removeprefix("--").partition("=")
        known = name in PASSES or name in PIPELINES or name in CXX_PASSES
        if word.startswith("--") and known:
            flags.append(f"{name}{{{options}}}" if options else name)
            _check_no_option_apart(word, argv[index + 1 : index + 2])
        else:
            rest.append(word)
    return flags, rest


def _check_no_option_apart(flag: str, following: Sequence[str]) -> None:
    for word in following:
        is_option = re.fullmatch(r"[a-z-]+=[^/]*", word) and not word.startswith("-")
        if "=" not in flag and is_option and not Path(word).exists():
            raise UsageError(
                f"there is no file '{word}'; if it is an option of the pass, write {flag}='{word}'"
            )


def _pass_set(names: str | None, every: bool) -> frozenset[str]:
    if every:
        return frozenset(["all"])
    return frozenset(name.strip() for name in (names or "").split(",") if name.strip())
