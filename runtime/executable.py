"""Loading and calling a compiled program: `jax.jit(jax.shard_map(primitive))`.

The primitive stands for the program of one device; its lowering splices the compiled module into
the one jax makes, so jax's own dispatch, donation, caches and ahead-of-time stages serve it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir as jax_mlir
from jax.sharding import get_abstract_mesh

from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime import splicing
from dtensor.runtime.array import DTensor
from dtensor.runtime.clients.agreement import agree_on_program
from dtensor.runtime.context import without_mesh
from dtensor.runtime.donation import Run, guarded, guarded_tensors
from dtensor.runtime.empty import filled, with_empty, without_empty
from dtensor.runtime.order import is_ordered, waiting, with_end
from dtensor.runtime.placement import jax_mesh, named_sharding, refined_mesh
from dtensor.runtime.tracing import Primitive

_MAX_STEPS_IN_FLIGHT = 8


class ArraySpec(Protocol):
    """What the runtime needs to know of an argument or a result."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape in elements."""

    @property
    def dtype(self) -> str:
        """Name of the element type."""

    @property
    def layout(self) -> Layout:
        """How the array is laid out."""

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """Global shape of what the devices hold."""

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape of a shard in elements."""


class Program(Protocol):
    """What the runtime needs of a compiled program; `compiler.program.CompiledProgram` has it."""

    @property
    def bytecode(self) -> bytes:
        """StableHLO module of one device, as MLIR bytecode."""

    @property
    def mesh(self) -> Mesh:
        """The mesh whose devices run the program."""

    @property
    def args(self) -> Sequence[ArraySpec]:
        """The arguments of `@main`."""

    @property
    def results(self) -> Sequence[ArraySpec]:
        """The results of `@main`."""

    @property
    def donated(self) -> tuple[int, ...]:
        """Indices of the arguments whose buffers may be reused."""

    @property
    def host_callbacks(self) -> tuple[Callable[..., Any], ...]:
        """Python functions the program calls, by callback index."""

    @property
    def keepalives(self) -> tuple[object, ...]:
        """Objects that must live as long as the program."""

    @property
    def compiler_options(self) -> tuple[tuple[str, Any], ...]:
        """Options of XLA."""

    @property
    def fingerprint(self) -> str:
        """Digest of the bytecode."""


class ProgramKey:
    """Stands for a program in jax's traces: hashed by digest, printed short."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.results = [
            jax.core.ShapedArray(result.local_shape, np.dtype(result.dtype))
            for result in program.results
        ]

    def __hash__(self) -> int:
        return hash(self.program.fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramKey) and self.program is other.program

    def __repr__(self) -> str:
        return f"program {self.program.fingerprint[:12]}"


_local_program = Primitive("dtensor_local_program")
_local_program.multiple_results = True


def _abstract(*args: Any, key: ProgramKey) -> list[jax.core.ShapedArray]:
    return key.results


_local_program.def_abstract_eval(_abstract)


def _evaluate(*args: Any, key: ProgramKey) -> list[jax.Array]:
    # Under jax.disable_jit, which is for Python code: there is none in a program. And where jax
    # found a NaN in a program, and looks for the line of Python that made it.
    with jax.disable_jit(False), jax.debug_nans(False), jax.debug_infs(False):
        return list(_compiled(key)(*args))


@lru_cache(maxsize=64)
def _compiled(key: ProgramKey) -> Callable[..., Sequence[jax.Array]]:
    run: Callable[..., Sequence[jax.Array]] = jax.jit(
        lambda *args: _local_program.bind(*args, key=key)
    )
    return run


_local_program.def_impl(_evaluate)


def _lower(ctx: Any, *args: Any, key: ProgramKey) -> Any:
    return splicing.splice(ctx.module_context, key.program, args)


jax_mlir.register_lowering(_local_program, _lower)


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

    Attributes:
        run: starts the program on global arrays as its arguments describe them, and returns the
            global results before they are computed. Host arrays are distributed; an array of
            another sharding would be moved without a word, so the caller compares layouts first.
            Raises RuntimeError where one is deleted, ValueError where a donated one comes twice.

    Raises:
        MeshError: jax lacks a device of the mesh.
        RuntimeError: another process of the mesh loads another program.
    """

    def __init__(self, program: Program, name: str = "step") -> None:
        self.program = program
        agree_on_program(program.fingerprint, program.mesh)
        if b"lapack_" in program.bytecode:
            prepare_lapack()
        self._jitted = jit_program(program, name)
        self._start = self._of_all(self._jitted)
        self.run = guarded(self._start, *self._guards)

    @property
    def run_here(self) -> Run:
        """`run`, for calls under the `jax.set_mesh` that is around this one, or under none.

        jax would compile the program anew for each mesh that is set.
        """
        return self.run_compiled if get_abstract_mesh().axis_names else self.run

    @property
    def run_compiled(self) -> Run:
        """`run` under any mesh, and on arrays that lie nowhere yet: jax brings those along.

        For such arrays, which its types tell apart, jax would compile the program anew in `run`.
        """
        return guarded(self._start_compiled, *self._guards)

    @property
    def run_tensors_here(self) -> Callable[[Sequence[DTensor]], Sequence[jax.Array]]:
        """`run_here`, of a sequence of DTensors that lie as the program takes them."""
        is_under_mesh = bool(get_abstract_mesh().axis_names)
        start = self._start_compiled if is_under_mesh else self._start
        return guarded_tensors(start, *self._guards)

    @cached_property
    def _start_compiled(self) -> Run:
        compiled = self.compiled

        def run(*args: Any) -> Sequence[jax.Array]:
            # Without a function, jax can neither undo the compilation nor look for a NaN's line.
            how: Any = jax.config
            is_watched = how.jax_disable_jit or how.jax_debug_nans or how.jax_debug_infs
            results: Sequence[jax.Array] = (self._jitted if is_watched else compiled)(*args)
            return results

        return self._of_all(run)

    @property
    def _guards(self) -> tuple[list[str], Sequence[int]]:
        return [arg.name for arg in self.program.args], self.program.donated

    def _of_all(
        self, run: Callable[..., Sequence[jax.Array]]
    ) -> Callable[..., Sequence[jax.Array]]:
        """`run` of arrays with elements, on all arguments."""
        program = self.program
        if is_ordered(program.bytecode):
            run = waiting(run)
        if _needs_throttle(program):
            run = _throttled(run)
        return with_empty(program, run)

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
            lowered: jax.stages.Lowered = self._jitted.lower(*args)
        return lowered

    @cached_property
    def compiled(self) -> jax.stages.Compiled:
        """XLA's executable; calls with arrays of exactly these shardings use the same one."""
        return self.lowered.compile()

    def as_text(self) -> str:
        """The optimised HLO."""
        return self.compiled.as_text() or ""

    def cost_analysis(self) -> dict[str, float]:
        """XLA's counts for one device; loop bodies count once."""
        analysis: Any = self.compiled.cost_analysis()
        return dict(analysis[0] if isinstance(analysis, list) else analysis or {})

    def memory_analysis(self) -> Any:
        """XLA's count of the bytes that arguments, results and temporaries take on one device."""
        return self.compiled.memory_analysis()


def local_program(program: Program, name: str) -> Callable[..., tuple[Any, ...]]:
    """The program of one device, as a function that jax can trace."""
    key = ProgramKey(program)

    def body(*args: Any) -> tuple[Any, ...]:
        return tuple(_local_program.bind(*args, key=key))

    body.__name__ = body.__qualname__ = f"dtensor_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
    return body


def jit_program(program: Program, name: str) -> Any:
    """The program as a `jax.jit` over its mesh; profiles and the HLO call it `dtensor_<name>`.

    It takes the arguments that have elements and returns the results that have some.
    """
    body = without_empty(program, local_program(program, name))
    args, results = _with_elements(program.args), _with_elements(program.results)
    numbers = filled(program.args)
    refined = refined_mesh(program.mesh, [info.layout for info in (*args, *results)])
    out_specs = [refined.spec(result.layout) for result in results]
    out_shardings = [named_sharding(result.layout) for result in results]
    if is_ordered(program.bytecode):
        body = with_end(body)
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

    return jax.jit(
        mapped,
        in_shardings=tuple(named_sharding(arg.layout) for arg in args),
        out_shardings=tuple(out_shardings),
        donate_argnums=[k for k, number in enumerate(numbers) if number in program.donated],
        keep_unused=True,
        compiler_options=dict(program.compiler_options) or None,
    )


def _with_elements(arrays: Sequence[ArraySpec]) -> list[ArraySpec]:
    return [arrays[number] for number in filled(arrays)]


def _needs_throttle(program: Program) -> bool:
    # Before jax 0.12, more than about eight unfinished steps with collectives deadlock on CPU:
    # their devices' threads wait for one another.
    if jax.__version_info__ >= (0, 12) or program.mesh.size == 1 or not program.results:
        return False
    platform = jax_mesh(program.mesh).devices.flat[0].platform
    return bool(platform == "cpu" and splicing.has_collectives(program.bytecode))


_steps_started = itertools.count(1)  # of all programs: they share the threads


def _throttled(run: Run) -> Run:
    def throttled(*arrays: Any) -> Sequence[jax.Array]:
        results = run(*arrays)
        is_traced = bool(results) and isinstance(results[-1], jax.core.Tracer)  # nothing runs
        if results and not is_traced and not next(_steps_started) % _MAX_STEPS_IN_FLIGHT:
            results[-1].block_until_ready()
        return results

    return throttled
