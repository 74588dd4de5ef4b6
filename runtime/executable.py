"""Loading and calling a compiled program: `jax.jit(jax.shard_map(primitive))`.

The primitive stands for the program of one device (`splicing.py`), so jax's own dispatch, donation,
caches and ahead-of-time stages serve it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, get_abstract_mesh

from dtensor.runtime import splicing
from dtensor.runtime.clients.agreement import agree_on_program
from dtensor.runtime.context import sharding_on, without_mesh
from dtensor.runtime.donation import Run, guarded, guarded_tensors
from dtensor.runtime.in_flight import throttled
from dtensor.runtime.padding import empty_array, padded
from dtensor.runtime.placement import named_sharding, refined_mesh
from dtensor.runtime.splicing import ArraySpec, Program, local_program
from dtensor.runtime.tracing import is_eager


def prepare_lapack() -> None:
    """Load SciPy's LAPACK for XLA's CPU kernels; a program read from text may be the first to call.

    jax does it when it lowers such a call itself; without, the call jumps to address 0.
    """
    jax.jit(jnp.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), jnp.float32))


class Executable:
    """A program loaded on the devices of its mesh.

    Args:
        program: what to run.
        name: name of the program in profiles and in the compiled HLO.
        explicit: the mesh in whose axis types results are made; None for axes of type Auto.

    Attributes:
        run: starts the program on global arrays as its arguments describe them, and returns the
            global results before they are computed. Host arrays are distributed; an array of
            another sharding would be moved without a word, so the caller compares layouts first.
            Raises RuntimeError where one is deleted, ValueError where a donated one comes twice.

    Raises:
        MeshError: jax lacks a device of the mesh.
        RuntimeError: another process of the mesh loads another program.
    """

    def __init__(
        self, program: Program, name: str = "step", explicit: AbstractMesh | None = None
    ) -> None:
        self.program = program
        agree_on_program(program.fingerprint, program.mesh)
        if b"lapack_" in program.bytecode:
            prepare_lapack()
        self._guards = [arg.name for arg in program.args], program.donated
        self._jitted = jit_program(program, name, explicit)
        self._named = name, explicit
        self._start = self._of_all(self._run_jitted if _is_padded(program) else self._jitted)
        self.run = guarded(self._start, *self._guards)

    def runner(self, of_tensors: bool = False, brings: bool = False) -> Callable[..., Any]:
        """`run`, for calls under the `jax.set_mesh` that is around this one, or under none.

        jax would compile the program anew for each mesh that is set, and for arrays that lie
        nowhere, which its types tell apart; what it compiled already takes them too.

        Args:
            of_tensors: whether it takes a sequence of DTensors, which lie as the program takes
                them.
            brings: whether arrays may lie nowhere yet, which jax brings along, or lie as they
                should by a sharding that is written another way.
        """
        is_compiled = brings or bool(get_abstract_mesh().axis_names)
        start = self._start_compiled if is_compiled else self._start
        return (guarded_tensors if of_tensors else guarded)(start, *self._guards)

    def named(self, names: Sequence[str]) -> Run:
        """`run`, whose errors call the arguments so."""
        return guarded(self._start, names, self.program.donated)

    @cached_property
    def _start_compiled(self) -> Run:
        if any(jax.dtypes.itemsize_bits(np.dtype(arg.dtype)) < 8 for arg in self.program.args):
            return self._start  # jax finds arrays of int4 laid out in another way than compiled for
        compiled = self.compiled

        def run(*args: Any) -> Sequence[jax.Array]:
            # Without a function, jax can neither undo the compilation nor look for a NaN's line.
            how: Any = jax.config
            is_watched = how.jax_disable_jit or _looks_for_nans()
            results: Sequence[jax.Array] = (self._run_jitted if is_watched else compiled)(*args)
            return results

        return self._of_all(run)

    def _run_jitted(self, *args: Any) -> Sequence[jax.Array]:
        run = self._jitted
        if _looks_for_nans() and _is_padded(self.program):
            run = self._with_zeros
        results: Sequence[jax.Array] = run(*args)
        return results

    @cached_property
    def _with_zeros(self) -> jax.stages.Wrapped:
        return jit_program(self.program, *self._named, zeros=True)

    def _of_all(self, run: Run) -> Run:
        if splicing.is_ordered(self.program.bytecode):
            run = _waiting(run)
        if self.program.results and splicing.has_collectives(self.program.bytecode):
            run = throttled(self.program.mesh, run)
        return _with_empty(self.program, run)

    @cached_property
    def lowered(self) -> jax.stages.Lowered:
        """The module as jax hands it to XLA."""
        args = [
            jax.ShapeDtypeStruct(
                arg.padded_shape, np.dtype(arg.dtype), sharding=named_sharding(arg.layout)
            )
            for arg in _with_elements(self.program.args)
        ]
        with without_mesh():
            return self._jitted.lower(*args)

    @cached_property
    def compiled(self) -> jax.stages.Compiled:
        """XLA's executable; calls with arrays of exactly these shardings use the same one."""
        return self.lowered.compile()

    def as_text(self) -> str:
        """The optimised HLO."""
        return self.compiled.as_text() or ""


def _looks_for_nans() -> bool:
    how: Any = jax.config
    return bool(how.jax_debug_nans or how.jax_debug_infs)


def _is_padded(program: Program) -> bool:
    return any(result.padded_shape != result.shape for result in program.results)


def jit_program(
    program: Program, name: str, explicit: AbstractMesh | None = None, zeros: bool = False
) -> jax.stages.Wrapped:
    """The program as a `jax.jit` over its mesh; profiles and the HLO call it `dtensor_<name>`.

    It takes the arguments that have elements and returns the results that have some, these in the
    axis types of the mesh `explicit` if there is one, and with `zeros` padded by zeros.
    """
    body = without_empty(program, local_program(program, name))
    args, results = _with_elements(program.args), _with_elements(program.results)
    refined = refined_mesh(program.mesh, [info.layout for info in (*args, *results)])
    out_specs = [refined.spec(result.layout) for result in results]
    out_shardings = [sharding_on(named_sharding(result.layout), explicit) for result in results]
    if splicing.is_ordered(program.bytecode):
        body = _with_end(body)
        out_specs.append(jax.P(refined.jax_mesh.axis_names))
        out_shardings.append(jax.NamedSharding(refined.jax_mesh, out_specs[-1]))
    mapped = body
    if program.mesh.size > 1:
        split = jax.shard_map(
            body,
            mesh=refined.jax_mesh,
            in_specs=tuple(refined.spec(arg.layout) for arg in args),
            out_specs=tuple(out_specs),
            check_vma=False,  # the program's own collectives are opaque to jax
        )

        @functools.wraps(body)
        def mapped(*args: Any) -> Sequence[jax.Array]:
            # Under jax.set_mesh, whose mesh may be another or have axes of another type.
            with jax.sharding.use_abstract_mesh(refined.jax_mesh.abstract_mesh):
                results: Sequence[jax.Array] = split(*args)
            return results

    if zeros:
        mapped = _with_zeros(results, mapped)
    return jax.jit(
        not_again(mapped),
        in_shardings=tuple(named_sharding(arg.layout) for arg in args),
        out_shardings=tuple(out_shardings),
        donate_argnums=[k for k, n in enumerate(filled(program.args)) if n in program.donated],
        # The program reads all of them; jax 0.11 keeps for good what it is told so of.
        keep_unused=not results,
        compiler_options=dict(program.compiler_options) or None,
    )


def not_again(body: Run) -> Run:
    """`body`, but not for jax to run on arrays when it has found a NaN, in search of its line.

    A program has no lines; and where another client has found none, it would not take part.
    """

    @functools.wraps(body)
    def once(*args: Any) -> Sequence[jax.Array]:
        how: Any = jax.config
        if _looks_for_nans() and is_eager() and not how.jax_disable_jit:
            wrong = {"nan": how.jax_debug_nans, "inf": how.jax_debug_infs}
            kinds = " or ".join(kind for kind, is_wrong in wrong.items() if is_wrong)
            raise FloatingPointError(f"Invalid value ({kinds}) encountered in sharded computation.")
        return body(*args)

    return once


def _with_elements(arrays: Sequence[ArraySpec]) -> list[ArraySpec]:
    return [arrays[number] for number in filled(arrays)]


def _with_zeros(results: Sequence[ArraySpec], body: Run) -> Run:
    """The program with zeros for what stands behind the last element: jax looks for NaNs there."""

    @functools.wraps(body)
    def zeroed(*args: Any) -> tuple[Any, ...]:
        found = list(body(*args))
        for number, result in enumerate(results):
            if result.padded_shape != result.shape:
                array = jax.lax.slice(found[number], [0] * len(result.shape), result.shape)
                found[number] = padded(array, result.layout)
        return tuple(found)

    return zeroed


# A run of a program that calls Python in order returns when all of it has been called: within a
# program tokens keep the order, and each run starts an order of its own. Runs go on behind the back
# of the caller; so each device gives one more element, when it is done, and that is awaited.


def _with_end(body: Run) -> Run:
    @functools.wraps(body)
    def ending(*args: Any) -> tuple[Any, ...]:
        return (*body(*args), jnp.zeros(1, bool))

    return ending


def _waiting(run: Run) -> Run:
    def run_and_wait(*arrays: Any) -> Sequence[jax.Array]:
        *results, end = run(*arrays)
        jax.block_until_ready(end)
        return results

    return run_and_wait


# Arrays without elements pass by jax.jit: XLA replaces each by a constant of the global shape, so
# that every device is left with a shard of that shape, and it refuses a shard_map whose arguments
# all went this way. So a program is run on the arrays that have elements; inside, the others are
# made anew, and so are results without any.


def filled(arrays: Sequence[ArraySpec]) -> list[int]:
    """The numbers of the arguments, or results, that have elements."""
    return [i for i, array in enumerate(arrays) if 0 not in array.shape]


def without_empty(program: Program, body: Run) -> Run:
    """The program of one device as a function of what has elements, to what has elements.

    Args:
        program: the program.
        body: takes local values of all its arguments and returns all its results.
    """

    @functools.wraps(body)
    def inner(*kept: Any) -> tuple[Any, ...]:
        rest = iter(kept)
        values = [
            jnp.zeros(arg.local_shape, np.dtype(arg.dtype)) if 0 in arg.shape else next(rest)
            for arg in program.args
        ]
        results = body(*values)
        return tuple(results[number] for number in filled(program.results))

    return inner


def _with_empty(program: Program, run: Run) -> Run:
    taken = filled(program.args)
    if len(taken) == len(program.args) and len(filled(program.results)) == len(program.results):
        return run

    def outer(*arrays: Any) -> Sequence[jax.Array]:
        kept = iter(run(*[arrays[number] for number in taken]))
        return [
            empty_array(info.shape, info.dtype, info.layout) if 0 in info.shape else next(kept)
            for info in program.results
        ]

    return outer
