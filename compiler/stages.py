"""The stages of a compilation, after jax's: lowered to StableHLO of one device, then compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import jax
from jax.sharding import AbstractMesh, get_abstract_mesh
from jax.tree_util import default_registry

from dtensor.compiler import driver
from dtensor.compiler.arguments import array_of, converter, is_brought, move_of
from dtensor.compiler.border import finishing_named, results_of
from dtensor.compiler.budget import active_budgets, check_active
from dtensor.compiler.calls import (
    TRACED,
    are_same,
    is_dtensor,
    quick_flatten,
    quick_types,
    tree_difference,
    types_of,
)
from dtensor.compiler.explicit import auto_mesh, explicit_mesh
from dtensor.compiler.jax_frontend import TracedArray, unflattening
from dtensor.compiler.kept_plans import kept_plan
from dtensor.compiler.planned import Planned, infos
from dtensor.compiler.program import CompiledProgram
from dtensor.compiler.progress import phases
from dtensor.compiler.relayout import Move, sent_by
from dtensor.compiler.shipping import check_can_be_pickled, exported
from dtensor.compiler.source import Source
from dtensor.compiler.targets.target import Target, machine_of, not_callable, unknown_machine
from dtensor.compiler.variables.calls import Bound, bound_call
from dtensor.compiler.variables.use import Use, pattern_of
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import CompileError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType
from dtensor.runtime.client import no_devices
from dtensor.runtime.context import typed_on
from dtensor.runtime.donation import refuse_deleted, refuse_twice
from dtensor.runtime.executable import Executable
from dtensor.runtime.placement import named_sharding
from dtensor.runtime.tracing import becomes_program, is_eager

_TRACED = (
    "a compiled program cannot be traced, nor be a part of what jax traces: call, or trace, the "
    "function that dtensor.jit gives"
)


class Lowered(Planned):
    """A program and its layouts, before and after the passes; `compile` loads it on the mesh.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
        >>> lowered = step.lower(np.ones((4, 8)))
        >>> lowered.collectives[0].text()
        'all_reduce over x of f32 8, 32 bytes per device, once'
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def __repr__(self) -> str:
        return f"Lowered({self._source.short()})"

    @cached_property
    def _result(self) -> driver.DriverResult:
        return self._run(None)

    def _plan(self) -> driver.DriverResult:
        return self._result

    def _run(self, after: Callable[..., None] | None) -> driver.DriverResult:
        source, options = self._source, self._source.options
        given: dict[str, Any] = {
            "source": source.module,
            "filename": source.filename,
            "mesh": source.mesh,
            "in_layouts": source.in_layouts,
            "out_layouts": source.out_layouts,
            "options": options,
            "donated": source.donated,
            "argument_names": [argument.name for argument in source.args],
            "result_names": [result.name for result in source.results],
            "machine": machine_of(source.mesh, source.target),
            "platform": source.platform,
        }
        with phases(f"planning {source.name}") as begin:
            plan = functools.partial(driver.compile_module, **given, after=after, before=begin)
            is_kept = not (after or source.calls_python or options.is_own)
            result = kept_plan(given, plan) if is_kept else plan()
        unknown = unknown_machine(source.mesh, source.target)
        if unknown and options.machine is None and options.cost is None:
            result.ledger.warn(None, unknown)
        return result

    def as_text(self, after: str | None = None) -> str:
        """The module as text.

        Args:
            after: name of a pass, such as "dtensor-propagate"; None is the end of the pipeline: the
                program of one device.

        Raises:
            CompileError: no pass of this name ran.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> "stablehlo.all_reduce" in step.lower(np.ones((4, 8))).as_text()
            True
        """
        if after is None:
            with make_context():
                return str(parse_module(self._result.bytecode))
        texts: dict[str, str] = {}

        def keep(name: str, module: object) -> None:
            texts[name] = str(module) if name == after else ""

        self._run(keep)
        if after not in texts:
            raise CompileError(f"no pass '{after}' ran{did_you_mean(after, list(texts))}")
        return texts[after]

    @property
    def args(self) -> tuple[TracedArray, ...]:
        """Shape, element type and name of each argument."""
        return self._source.args

    def compile(self) -> Compiled:
        """Compile for the devices of the mesh, or for the target, where there is one.

        Raises:
            CompileError: the program cannot be compiled; the message names the line. Or the mesh
                is abstract.
            NotFoundError: what compiles for the target is not installed.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(np.ones((4, 8))).compile()
            Compiled(<lambda> on mesh(x=2, y=4))
        """
        mesh = self._source.mesh
        if mesh is not None and mesh.is_abstract and self._source.target is None:
            raise CompileError(f"{self._source.name}: {no_devices(mesh)}")
        compiled = Compiled(self._source, self._result)
        what = f"compiling {self._source.name} with XLA"
        with phases(what) if self._source.target is None else nullcontext():  # which says more
            try:
                compiled.executable.compiled  # noqa: B018 - now, and not at the first call
            except jax.errors.JaxRuntimeError as error:
                from dtensor.compiler.targets.compilers import refused_here

                source, program = self._source, compiled.program.bytecode
                raise refused_here(error, source.name, program, source.filename) from None
        return compiled


class Compiled(Planned):
    """A program on the devices of its mesh.

    Attributes:
        program: what runs on each device.
        executable: the program, loaded.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
        >>> compiled = step.lower(np.ones((4, 8))).compile()
        >>> compiled(np.ones((4, 8))).shape
        (8,)
    """

    def __init__(self, source: Source, result: driver.DriverResult) -> None:
        self._source = source
        self._result = result
        self.program = _program(source, result)
        own = self.program.results[: source.out_tree.num_leaves]
        self._result_types = [info.type for info in own]
        self._made_on = _made_on(source, self._result_types)
        self.executable = _executable(self.program, source, self._made_on)
        self._calls: dict[tuple[Any, ...], Callable[[Sequence[Any]], Any]] = {}

    def __repr__(self) -> str:
        return f"Compiled({self._source.short()})"

    def __reduce__(self) -> Any:
        check_can_be_pickled(self._source)
        return Compiled, (self._source, self._result)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; returns before it has finished.

        Args:
            args: what the program was compiled for: DTensors, jax.Arrays or host arrays. One in
                another layout is moved first, which the ledger records.
            kwargs: the same by keyword.

        Returns:
            DTensors, or jax.Arrays under `returns="jax"`, in the structure the function returns.

        Raises:
            TypeError: other structure, shapes or element types than compiled for.
            StrictError: an argument would have to be moved.
            BudgetError: it sends more, or otherwise, than a `dtensor.budget` around the call says.
            CompileError: the program was compiled for a target, and not for this machine.
        """
        if self._source.target is not None:
            raise not_callable(self._source.name, self._source.target)
        has_budget = bool(active_budgets())
        quick, quick_tree = quick_flatten((args, kwargs))
        is_under_mesh = bool(get_abstract_mesh().axis_names)
        known_as = (quick_tree, quick_types(quick), is_under_mesh, jax.enable_x64.value)
        call = self._calls.get(known_as)
        if call is not None and not has_budget and is_eager():
            return call(quick)
        if becomes_program():
            raise TypeError(_TRACED)
        leaves, tree = default_registry.flatten((args, kwargs), is_dtensor)
        if tree != self._source.in_tree:
            raise self._other_structure(args, kwargs)
        names = [info.name for info in self._source.args]
        types = types_of(leaves, lambda: names, of_values=True)
        call = self._calls.get((is_under_mesh, *types))
        if call is None:
            call = self._calls[(is_under_mesh, *types)] = self.caller(types)
        if known_as[1] is not None and are_same(quick, leaves):
            self._calls[known_as] = call
        if has_budget:
            check_active(self._source.name, sent_by(self.collectives, self.moves(types)))
        return call(leaves)

    def moves(self, types: Sequence[ArrayType]) -> tuple[Move, ...]:
        """What a call with arguments of these types moves over the mesh before it runs."""
        use, infos = self._source.variables, self.program.args
        if use is not None:
            infos = infos[len(use.names) :]
            types = [types[leaf] for leaf in use.plain_leaves(len(types))]
        found = [move_of(info, type_) for info, type_ in zip(infos, types, strict=True)]
        return tuple([move for move in found if move is not None])

    def _other_structure(self, args: Any, kwargs: Any) -> TypeError:
        """What a call with other trees of arguments than compiled for deserves."""
        name = self._source.name
        different = tree_difference((args, kwargs), self._source.in_tree)
        if different is None:  # a node of the same keys, with other static fields
            return TypeError(f"{name} was compiled for another structure of its arguments")
        kind, _, path = different.path[1:].partition("]")
        where = "args" if kind == "0" else "kwargs"
        if not path:
            where = "the positional arguments" if kind == "0" else "the keyword arguments"
        return TypeError(
            f"{name}: {where + path}: compiled for {different.needed}, called with "
            f"{different.found}"
        )

    def caller(self, types: Sequence[ArrayType]) -> Callable[[Sequence[Any]], Any]:
        """What runs the program on the flat list of its arguments, of these types.

        Raises:
            TypeError: the program takes other shapes or element types.
            StrictError: an argument would have to be moved, under `strict`.
        """
        if self._source.variables is not None:
            use, bound = self._source.variables, self.bound(types)
            return functools.partial(_call_again, use, bound)
        infos = self.program.args
        if TRACED in types:
            raise TypeError(_TRACED)
        if len(types) != len(infos):
            raise TypeError(f"the program takes {len(infos)} arrays, not {len(types)}")
        ledger, strict = self._result.ledger, bool(self._source.options.strict)
        donated, name = self.program.donated, self._source.name
        converters = [
            converter(info, type_, ledger, strict, number not in donated)
            for number, (info, type_) in enumerate(zip(infos, types, strict=True))
        ]
        finish = self._finishing(types)
        if all(type_.layout is not None for type_ in types) and not any(converters):
            start = self.executable.runner(of_tensors=True)
            return finishing_named(name, finish, start)

        brings = any(is_brought(c) for c in converters)
        run = self.executable.runner(brings=brings)
        convert = [c or array_of for c in converters]
        names = [info.name for info in infos]
        done = finishing_named(name, finish, run)

        def call(leaves: Sequence[Any]) -> Any:
            if donated:  # jax brings an array to more devices by taking its buffer for one of them
                refuse_twice(list(map(array_of, leaves)), names, donated)
            try:
                arrays = [c(leaf) for c, leaf in zip(convert, leaves, strict=True)]
            except RuntimeError:
                refuse_deleted(map(array_of, leaves), names)
                raise
            return done(*arrays)

        return call

    def _finishing(self, given: Sequence[ArrayType]) -> Callable[[Sequence[jax.Array]], Any]:
        """What makes the results of a call, in their structure, of the arrays of the program.

        jax.Arrays have the axis types of the mesh that is set, or else of the arrays that were
        given. It does not keep the variables of the program alive, as `self` does.
        """
        source, made_on = self._source, self._made_on
        unflatten = unflattening(source.out_tree, source.results)
        as_jax = source.returns == "jax"
        make = results_of(self._result_types, as_jax)
        explicit = explicit_mesh([type_.sharding for type_ in given]) if as_jax else None
        if explicit == made_on:
            return lambda arrays: unflatten(make(arrays))
        if explicit is None:
            assert made_on is not None
            explicit = auto_mesh(made_on)
        # jax refuses arrays of a mesh of other types beside those that were given.
        mesh = explicit
        return lambda arrays: unflatten([typed_on(mesh, array) for array in make(arrays)])

    @property
    def variables(self) -> Use | None:
        """The variables that the program takes and assigns; None where there are none."""
        return self._source.variables

    def bound(self, types: Sequence[ArrayType]) -> Bound:
        """What runs a program with variables, on the leaves of its arguments, of these types.

        Raises:
            TypeError: the program takes other shapes or element types.
            StrictError: an argument would have to be moved, under `strict`.
        """
        use = self._source.variables
        assert use is not None
        if TRACED in types:
            raise TypeError(_TRACED)
        leaves = use.plain_leaves(len(types))
        infos = self.program.args[len(use.names) :]
        strict = bool(self._source.options.strict)
        converters = [
            converter(info, types[leaf], self._result.ledger, strict) or array_of
            for info, leaf in zip(infos, leaves, strict=True)
        ]
        run = self.executable.runner(brings=any(map(is_brought, converters)))
        finish = self._finishing(types)
        return bound_call(use, len(types), run, converters, finish)

    def export(self) -> jax.export.Exported:
        """The program as `jax.export` has it: takes jax.Arrays, on as many devices as the mesh.

        Raises:
            CompileError: the program calls Python functions, uses variables, or is for a target.

        Example:
            >>> compiled = dtensor.jit(jnp.tanh, mesh=mesh).lower(np.ones((4, 8))).compile()
            >>> compiled.export().nr_devices
            8
        """
        if self._source.target is not None:
            raise not_callable(self._source.name, self._source.target)
        return exported(self._source, self.program, self.executable.run)

    # What was compiled.

    @property
    def target(self) -> Target | None:
        """The machine the program was compiled for ahead of time; None is this one."""
        return self._source.target

    def target_report(self) -> str:
        """The collectives of the plan and of the optimised HLO, and the memory of one device."""
        from dtensor.compiler.targets.report import target_report

        return target_report(self)

    def as_text(self) -> str:
        """The HLO that XLA optimised for one device.

        Example:
            >>> compiled = dtensor.jit(jnp.tanh, mesh=mesh).lower(np.ones((4, 8))).compile()
            >>> "HloModule" in compiled.as_text()
            True
        """
        return self.executable.as_text()

    @property
    def mesh(self) -> Mesh:
        """The mesh the program runs on."""
        return self.program.mesh

    @property
    def input_shardings(self) -> Any:
        """`in_layouts` as NamedShardings, by the name that jax's stages have for them."""
        return jax.tree.map(named_sharding, self.in_layouts)

    @property
    def output_shardings(self) -> Any:
        """`out_layouts` as NamedShardings, by the name that jax's stages have for them."""
        return jax.tree.map(named_sharding, self.out_layouts)

    def cost_analysis(self) -> dict[str, float]:
        """XLA's counts for one device; loop bodies count once.

        Example:
            >>> compiled = dtensor.jit(jnp.tanh, mesh=mesh).lower(np.ones((4, 8))).compile()
            >>> compiled.cost_analysis()["bytes accessed"] > 0
            True
        """
        return dict(self.executable.compiled.cost_analysis() or {})

    def _plan(self) -> driver.DriverResult:
        return self._result

    def _measured_memory(self) -> Any:
        return self.memory_analysis()

    def memory_analysis(self) -> Any:
        """XLA's count of the bytes of arguments, results and temporaries of one device.

        Example:
            >>> compiled = dtensor.jit(jnp.tanh, mesh=mesh).lower(np.ones((4, 8))).compile()
            >>> compiled.memory_analysis().argument_size_in_bytes
            128
        """
        return self.executable.compiled.memory_analysis()


def _made_on(source: Source, results: Sequence[ArrayType]) -> AbstractMesh | None:
    """The mesh in whose axis types a program makes its results; None for type Auto.

    Variables have axes of type Auto, and so has what is made of results, or beside them.
    """
    odd = any(type_.key or type_.is_padded or 0 in type_.shape for type_ in results)
    return None if odd or source.variables is not None else source.explicit


def _executable(
    program: CompiledProgram, source: Source, explicit: AbstractMesh | None
) -> Executable:
    if source.target is None:
        return Executable(program, source.name, explicit)
    from dtensor.compiler.targets.executable import TargetExecutable

    return TargetExecutable(program, source.name, source.target)


def _call_again(use: Use, bound: Bound, leaves: Sequence[Any]) -> Any:
    members = use.members(leaves)
    if pattern_of(members) != use.pattern:
        raise TypeError(
            "compiled for other places of the same variable: a variable that was passed in two "
            "places, or closed over too, must be so again; compile for this call"
        )
    return bound(members, leaves)


def _program(source: Source, result: driver.DriverResult) -> CompiledProgram:
    mesh = result.mesh
    return CompiledProgram(
        bytecode=result.bytecode,
        mesh=mesh,
        args=infos(source.args, result.arg_layouts),
        results=infos(source.results, result.result_layouts),
        donated=source.donated,
        host_callbacks=source.host_callbacks,
        keepalives=source.keepalives,
        ledger=result.ledger,
        compiler_options=source.compiler_options,
    )
