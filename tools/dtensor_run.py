"""dtensor-run: runs a module over a mesh, and compares each of its operations with one device.

`dtensor-run --help` describes the options.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.pipeline import Pipeline
from dtensor.tools import add_version
from dtensor.tools.command_line import (
    CommandLine,
    UsageError,
    carry_out,
    file_name,
    internal_error,
    open_streams,
    parse_mesh,
    read_input,
)

if TYPE_CHECKING:
    from dtensor.compiler.jax_frontend import TracedArray
    from dtensor.compiler.stages import Lowered

_NAME = "dtensor-run"
_DESCRIPTION = """\
Runs a StableHLO module over a mesh, on random numbers or on those of .npy files, and prints what
comes out. FILE is MLIR text or bytecode with layouts: dtensor's, or sdy's as jax prints them.
"""
_EXAMPLES = """\
examples:
  dtensor-run step.mlir                      random arguments, on as many CPU devices as it names
  dtensor-run step.mlir x.npy w.npy          these arguments, in order
  dtensor-run step.mlir --verify             and each operation against one device
  dtensor-run step.mlir --mesh x=2,y=4       a module without a mesh

exit status: 0 it ran, and nothing differed; 1 there was an error, or --verify found a difference.
"""
Array = np.ndarray[Any, Any]


def main() -> None:
    """Entry point of the command; exits the process."""
    open_streams()
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Do what the command line asks, and return the exit status."""

    def work() -> int:
        return _run(_parser().parse_intermixed_args(argv))

    return carry_out(_NAME, work, "--debug" in argv, _told)


def _told(wrong: Exception) -> str:
    # XLA's errors are RuntimeErrors.
    own = isinstance(wrong, ValueError | RuntimeError)
    return f"{_NAME}: {f'error: {wrong}' if own else internal_error(wrong)}"


def _parser() -> argparse.ArgumentParser:
    parser = CommandLine(_NAME, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("file", type=file_name, metavar="FILE", help="the module; - is standard input")
    random = "arguments; random ones if left out"
    add("arguments", nargs="*", type=file_name, default=[], metavar="ARGUMENT.npy", help=random)
    add("--mesh", metavar="x=2,y=4", help="mesh to run on, major axis first, in devices")
    add("--device-type", default="CPU", metavar="CPU", help="CPU (the default), GPU or TPU")
    add("--seed", type=int, default=0, metavar="N", help="of random arguments; 0 if left out")
    add("--verify", action="store_true", help="compare each operation with one device")
    add("-o", dest="output", type=file_name, metavar="FOLDER", help="write results there, as .npy")
    add("--debug", action="store_true", help="show the traceback of an error")
    add_version(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    is_piped = options.file == "-"
    source = read_input(options.file)
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed} is negative; give a number of 0 or more")
    mesh = None if options.mesh is None else parse_mesh(options.mesh)
    import dtensor

    count = _device_count(source, "<stdin>" if is_piped else options.file, mesh)
    virtual = count if options.device_type.upper() == "CPU" else None
    dtensor.initialize_accelerator_system(options.device_type, num_logical_cpu_devices=virtual)
    on = None if mesh is None else dtensor.create_mesh(mesh.axes)
    lowered = dtensor.lower_mlir(source if is_piped else options.file, mesh=on)
    arguments = _arguments(options, lowered.args)
    if options.verify:
        from dtensor.compiler.verification.verify import verify_lowered

        report = verify_lowered(lowered, arguments)
        print(report)
        if not report.ok:
            return 1
    _show(lowered, arguments, options.output)
    return 0


def _device_count(source: bytes, filename: str, mesh: Mesh | None) -> int:
    """How many devices the module is for; jax must hear of it before it starts."""
    if mesh is not None:
        return mesh.size
    with make_context(), ir.Location.unknown():
        state = PassState()
        Pipeline.parse("dtensor-prepare, dtensor-import").run(parse_module(source, filename), state)
        assert state.mesh is not None
        return state.mesh.size


def _arguments(options: argparse.Namespace, infos: Sequence[TracedArray]) -> list[Array]:
    files = options.arguments
    if files and len(files) != len(infos):
        raise UsageError(
            f"{len(files)} files for the {len(infos)} arguments of {options.file}; give one for "
            "each, or none for random numbers"
        )
    if files:
        return [_read(name, info) for name, info in zip(files, infos, strict=True)]
    numbers = np.random.default_rng(options.seed)
    return [_random(numbers, info) for info in infos]


def _read(name: str, info: TracedArray) -> Array:
    try:
        array = np.load(name)
    except (ValueError, EOFError):
        array = None
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{name} is no .npy file of numbers; write one with numpy.save")
    if array.dtype.kind == "V":  # numpy writes types that are not its own as bytes
        array = array.view(np.dtype(info.dtype))
    if (array.shape, array.dtype) != (info.shape, np.dtype(info.dtype)):
        raise UsageError(
            f"{name} is {array.dtype}{list(array.shape)}, {info.name} is "
            f"{info.dtype}{list(info.shape)}; give an array of that shape and type"
        )
    return np.asarray(array)


def _random(numbers: np.random.Generator, info: TracedArray) -> Array:
    """Normal numbers, small integers or truth values."""
    dtype = np.dtype(info.dtype)
    if dtype.kind == "b":
        return numbers.integers(0, 2, info.shape).astype(dtype)
    if dtype.kind in "iu":
        return numbers.integers(0, 8, info.shape).astype(dtype)
    values = numbers.normal(size=info.shape)
    if dtype.kind == "c":
        values = values + 1j * numbers.normal(size=info.shape)
    return np.asarray(values).astype(dtype)


def _show(lowered: Lowered, arguments: Sequence[Array], folder: str | None) -> None:
    results = lowered.compile()(*arguments)
    for number, result in enumerate(results):
        array = np.asarray(result.to_jax())
        shape = "x".join(map(str, array.shape)) or "scalar"
        print(f"result[{number}]: {array.dtype} {shape}, {result.layout.short()}{_range(array)}")
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            np.save(Path(folder) / f"result_{number}.npy", array)


def _range(array: Array) -> str:
    if not math.prod(array.shape) or array.dtype.kind == "c":
        return ""
    wide = array.astype(np.float64)
    with np.errstate(invalid="ignore"):  # of infinities
        mean = wide.mean()
    return f"; from {wide.min():.6g} to {wide.max():.6g}, mean {mean:.6g}"


if __name__ == "__main__":
    main()
