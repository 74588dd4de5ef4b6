"""`dtensor.verify`: which operation of a program differs from one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from dtensor.compiler.calls import is_dtensor
from dtensor.compiler.options import CompileOptions, check_arguments
from dtensor.compiler.source import Source
from dtensor.compiler.stages import Lowered
from dtensor.compiler.verification.blocks import Planned, Reader, planned
from dtensor.compiler.verification.check import Checker
from dtensor.compiler.verification.report import Verification
from dtensor.compiler.verification.results import Reference, as_jax_runs, compare_results
from dtensor.compiler.verification.run import Runner
from dtensor.compiler.verification.shards import Array, poisoned
from dtensor.dialect.errors import CompileError
from dtensor.runtime.context import without_mesh
from dtensor.runtime.keys import data_of
from dtensor.runtime.shardings import AnyMesh


def verify(
    fn: Callable[..., Any],
    *args: Any,
    in_layouts: Any = None,
    out_layouts: Any = None,
    mesh: AnyMesh | None = None,
    options: CompileOptions | None = None,
    **kwargs: Any,
) -> Verification:
    """Run a function over a mesh, and compare each of its operations with one device.

    Every value of the planned program is taken from the devices, the parts of a sum added up. Then
    each operation is run on one device by itself, on what the devices read, so that the operation
    at fault is found and not those that come after it. Floating-point values may lie as far apart
    as roundings and the order of sums allow, others must be equal; see docs/verify.md.

    Args:
        fn: a function of arrays that JAX can trace, as for `dtensor.jit`, or what `dtensor.jit`
            made of one; where no layouts, mesh or options are given, it is verified with its own.
        args: its arguments: DTensors, jax.Arrays or host arrays.
        in_layouts: layouts of the arguments, as `dtensor.jit` takes them.
        out_layouts: layouts of the results, likewise.
        mesh: the mesh; None takes it from the layouts or the arguments.
        options: how to compile.
        kwargs: its arguments by keyword.

    Raises:
        CompileError: the function cannot be compiled, assigns variables, or runs in several
            processes.
        LayoutError: a layout does not fit its argument.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> print(dtensor.verify(jnp.tanh, np.ones((4, 8)), in_layouts=rows))
        tanh on mesh(x=2, y=4): 1 values of 1 operations are those of one device
    """
    from dtensor.compiler.api import JitFunction, jit

    check_arguments(fn, mesh, options)
    as_it_is = all(given is None for given in (in_layouts, out_layouts, mesh, options))
    if not (as_it_is and isinstance(fn, JitFunction)):
        fn = jit(fn, in_layouts=in_layouts, out_layouts=out_layouts, mesh=mesh, options=options)
    traced, leaves = fn.trace(*args, **kwargs), fn.leaves(args, kwargs)
    lowered = traced.lower()
    arguments = _arguments(lowered, leaves)
    return _verify(lowered, arguments, as_jax_runs(traced, arguments))


def verify_lowered(lowered: Lowered, arguments: Sequence[Any]) -> Verification:
    """Compare each operation of a lowered program with one device.

    Args:
        lowered: the program, from `dtensor.jit(fn).lower(...)` or `dtensor.lower_mlir(...)`.
        arguments: the leaves of its arguments.

    Raises:
        CompileError: it assigns variables, or runs in several processes.
    """
    return _verify(lowered, _arguments(lowered, arguments), None)


def _arguments(lowered: Lowered, leaves: Sequence[Any]) -> Sequence[Any]:
    """What the program takes for the leaves of a call: values of variables come first."""
    variables = lowered._source.variables
    return leaves if variables is None else variables.arguments(leaves)


def _verify(
    lowered: Lowered, arguments: Sequence[Any], reference: Reference | None
) -> Verification:
    source = lowered._source
    if source.variables is not None and source.variables.updated:
        raise CompileError(
            f"{source.name} assigns variables, which running it again and again would change; pass "
            "their values as arguments"
        )
    if jax.process_count() > 1:
        raise CompileError("verify looks at all shards; run it in one process, on virtual devices")
    values = [_on_host(leaf, info.dtype) for leaf, info in zip(arguments, source.args, strict=True)]
    found = planned(lowered)
    with without_mesh():
        return _verified(lowered, found, values, reference)


def _verified(
    lowered: Lowered, found: Planned, values: Sequence[Array], reference: Reference | None
) -> Verification:
    source: Source = lowered._source
    reader = Reader(found, source)
    main = reader.read()
    checker = Checker(Runner(found.mesh, source.host_callbacks, source.keepalives))
    given = {
        argument.number: [poisoned(value, argument.shape)]
        for argument, value in zip(main.tapped.arguments, values, strict=True)
    }
    results = checker.block(main, given, ())
    if not checker.differences:
        yielded = [results[n][0] for n in main.yields]
        compare_results(lowered, reader, checker, main, values, yielded, reference)
    return Verification(
        source.name,
        found.mesh,
        tuple(checker.differences),
        checker.values,
        checker.operations,
        tuple(checker.not_compared),
    )


def _on_host(leaf: Any, dtype: str) -> Array:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        raise TypeError("verify runs the program: give arrays, not ShapeDtypeStructs")
    array = leaf.to_jax() if is_dtensor(leaf) else leaf
    if isinstance(array, jax.Array):
        array = data_of(array)
    return np.asarray(array, np.dtype(dtype))
