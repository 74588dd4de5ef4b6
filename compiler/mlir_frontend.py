"""`dtensor.compile_mlir`: compile a StableHLO module for a mesh."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax.interpreters import mlir as jax_mlir

from dtensor.compiler.calls import meshes_in
from dtensor.compiler.jax_frontend import TracedArray
from dtensor.compiler.layouts import is_layout_leaf
from dtensor.compiler.options import CompileOptions, check_arguments, with_known_ops
from dtensor.compiler.source import Source
from dtensor.compiler.stages import Compiled, Lowered
from dtensor.compiler.targets.target import Target, check_mesh
from dtensor.dialect.build import declare_mesh
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.errors import CompileError, LayoutError
from dtensor.dialect.foreign import refuse_foreign_attributes
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.verify import verify_module
from dtensor.passes.functions import main_function
from dtensor.runtime.shardings import AnyLayout, AnyMesh, as_layout, as_mesh
from dtensor.runtime.splicing import has_python_callbacks


def compile_mlir(
    source: str | bytes | os.PathLike[str],
    *,
    mesh: AnyMesh | None = None,
    in_layouts: Sequence[AnyLayout | None] | AnyLayout | None = None,
    out_layouts: Sequence[AnyLayout | None] | AnyLayout | None = None,
    options: CompileOptions | None = None,
    target: str | Target | None = None,
) -> Compiled:
    """Compile a StableHLO module, plain or annotated with dtensor or sdy layouts, for a mesh.

    Args:
        source: MLIR text or bytecode, or the path of a file with either.
        mesh: the mesh; None takes the module's own, or that of the layouts.
        in_layouts: layout of each argument of `@main`, or one for all; None, also for an entry,
            keeps what the module says and else leaves the choice to the compiler.
        out_layouts: layout of each result, likewise.
        options: how to compile.
        target: the machine to compile for ahead of time, such as "tpu:v5e:2x4", over whose devices
            the mesh is laid; what is compiled cannot be called here. None is this machine.

    Returns:
        The compiled program. It is called with one array per argument and returns a tuple with one
        DTensor per result.

    Raises:
        CompileError: the module is malformed, has no entry function or calls Python functions; the
            message begins with `file:line:col`. Or there is no such target, or it does not fit.
        LayoutError: the layouts do not fit `@main`.
        OSError: the file cannot be read.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> text = jax.jit(jnp.tanh).lower(jnp.ones((4, 8))).as_text()
        >>> step = dtensor.compile_mlir(text, in_layouts=[rows])
        >>> step(np.ones((4, 8)))[0].layout
        Layout(['x', UNSHARDED], Mesh(x=2, y=4))
    """
    return lower_mlir(
        source,
        mesh=mesh,
        in_layouts=in_layouts,
        out_layouts=out_layouts,
        options=options,
        target=target,
    ).compile()


def lower_mlir(
    source: str | bytes | os.PathLike[str],
    *,
    mesh: AnyMesh | None = None,
    in_layouts: Sequence[AnyLayout | None] | AnyLayout | None = None,
    out_layouts: Sequence[AnyLayout | None] | AnyLayout | None = None,
    options: CompileOptions | None = None,
    target: str | Target | None = None,
) -> Lowered:
    """The first half of `compile_mlir`: the module with its layouts, not yet compiled.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> text = jax.jit(jnp.tanh).lower(jnp.ones((4, 8))).as_text()
        >>> dtensor.lower_mlir(text, in_layouts=[rows]).wire_bytes
        0.0
    """
    check_arguments(compile_mlir, mesh, options)
    machine = Target.of(target)
    module, filename = _read(source)
    if has_python_callbacks(module.encode() if isinstance(module, str) else module):
        raise CompileError(
            f"{filename}: the module calls Python functions, which a file cannot hold; "
            "compile the JAX function with dtensor.jit instead"
        )
    mesh = None if mesh is None else as_mesh(mesh)
    mesh = mesh or next(iter(meshes_in((in_layouts, out_layouts))), None)
    arguments, results = _signature(module, filename, mesh)
    given_in = _per_array(in_layouts, arguments, mesh, "in_layouts", "arguments")
    given_out = _per_array(out_layouts, results, mesh, "out_layouts", "results")
    meshes = dict.fromkeys(x.mesh for x in (*given_in, *given_out) if x is not None)
    mesh = mesh or next(iter(meshes), None)  # of specs under `default_mesh`
    if any(other != mesh for other in meshes):
        named = " and ".join(other.short() for other in dict.fromkeys([mesh, *meshes]) if other)
        raise LayoutError(
            f"a program runs on one mesh, but layouts name {named}; make all layouts on one of them"
        )
    if mesh is not None and machine is not None:
        check_mesh(mesh, machine)
    return Lowered(
        Source(
            module=module,
            filename=filename,
            name="main" if filename.startswith("<") else Path(filename).stem,
            mesh=mesh,
            in_layouts=given_in,
            out_layouts=given_out,
            options=with_known_ops(options or CompileOptions(), module),
            args=arguments,
            results=results,
            in_tree=jax.tree_util.tree_structure((tuple(range(len(arguments))), {})),
            out_tree=jax.tree_util.tree_structure(tuple(range(len(results)))),
            target=machine,
        )
    )


def _read(source: str | bytes | os.PathLike[str]) -> tuple[str | bytes, str]:
    """The module, as text or bytecode, and the name of its file."""
    if isinstance(source, bytes):
        return source, "<bytes>"
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return source, "<string>"
    if not isinstance(source, str | os.PathLike):
        raise CompileError(
            "compile_mlir takes MLIR as text or bytecode, or the path of a file, not a value of "
            f"type {type(source).__name__}{_meant_by(source)}"
        )
    if not os.fspath(source):
        raise CompileError("compile_mlir got an empty text; give MLIR, or the path of a file")
    path = Path(source)
    try:
        return path.read_bytes(), str(path)
    except OSError as error:
        raise type(error)(
            f"cannot read {str(source)!r} ({error.strerror}), which has no line break or brace and "
            "so is the path of a file; give a file that is there, or MLIR text"
        ) from None


def _meant_by(source: object) -> str:
    """What to give of something that holds a module; nothing where it is not known to."""
    if isinstance(source, ir.Module):
        return "; give str(module)"
    held = ("mlir_module_serialized", "as_text()", "read()")
    found = next((name for name in held if hasattr(source, name.removesuffix("()"))), None)
    return f"; give its {found}" if found else ""


def _signature(
    module: str | bytes, filename: str, mesh: Mesh | None
) -> tuple[tuple[TracedArray, ...], tuple[TracedArray, ...]]:
    with make_context():
        parsed = parse_module(module, filename)
        if mesh is not None:
            declare_mesh(mesh, parsed)
        verify_module(parsed)
        refuse_foreign_attributes(parsed)
        main = main_function(parsed)
        signature = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        arguments = [_array(t, f"args[{i}]", filename) for i, t in enumerate(signature.inputs)]
        results = [_array(t, f"result[{i}]", filename) for i, t in enumerate(signature.results)]
    return tuple(arguments), tuple(results)


def _array(type_: Any, name: str, filename: str) -> TracedArray:
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        sized = "give each dimension a size, or call what jax.export made in a dtensor.jit function"
        raise CompileError(
            f"{filename}: {name} has type {type_}; arguments and results must be tensors of known "
            f"shape{f'; {sized}' if '?' in str(type_) else ''}"
        )
    if math.prod(type_.shape) >= 1 << 63:
        raise CompileError(f"{filename}: {name} has type {type_}, whose elements no 64 bits count")
    element = str(type_.element_type)
    if element not in dtype_names():
        raise CompileError(
            f"{filename}: {name} has element type {element}, which jax does not have"
        )
    dtype = dtype_names()[element]
    if jax.dtypes.canonicalize_dtype(dtype) != np.dtype(dtype):
        raise CompileError(
            f"{filename}: {name} has element type {element}, but jax's 64-bit types are off; turn "
            'them on with jax.config.update("jax_enable_x64", True)'
        )
    return TracedArray(tuple(type_.shape), dtype, name)


@lru_cache(maxsize=1)
def dtype_names() -> dict[str, str]:
    """What numpy calls each of MLIR's element types that jax has."""
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    names += ["float16", "float32", "float64", "complex64", "complex128"]
    names += [n for n in dir(ml_dtypes) if n.startswith(("bfloat", "float", "int", "uint"))]
    found: dict[str, str] = {}
    with jax_mlir.make_ir_context():
        for name in names:
            try:
                found.setdefault(str(jax_mlir.dtype_to_ir_type(np.dtype(name))), name)
            except (TypeError, KeyError):  # ml_dtypes has some that jax lacks
                continue
    return found


def _per_array(
    layouts: Sequence[AnyLayout | None] | AnyLayout | None,
    arrays: Sequence[TracedArray],
    mesh: Mesh | None,
    option: str,
    what: str,
) -> tuple[Layout | None, ...]:
    given_layouts: Any = layouts
    if isinstance(layouts, Mapping):
        raise LayoutError(f"{option} is a dict; give a list with one layout for each of the {what}")
    found = [layouts] * len(arrays) if is_layout_leaf(layouts) else list(given_layouts)
    if len(found) != len(arrays):
        raise LayoutError(
            f"{option} has {len(found)} entries for the {len(arrays)} {what} of @main; give one "
            "for each, or one layout for all"
        )
    given = tuple(
        None if layout is None else as_layout(layout, len(array.shape), mesh, option)
        for layout, array in zip(found, arrays, strict=True)
    )
    for layout, array in zip(given, arrays, strict=True):
        problem = layout and (layout.problem(array.shape, uneven=True) or layout.border_problem())
        if layout is not None and problem:
            raise LayoutError(f"{array.name} cannot have the layout {layout.short()}: {problem}")
    return given
