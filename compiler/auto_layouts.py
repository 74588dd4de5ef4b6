"""`dtensor.auto_layouts`: the layouts of a function's arguments, found by the planner."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import jax
from jax.tree_util import PyTreeDef

from dtensor.compiler.calls import is_dtensor, struct_of, types_of
from dtensor.compiler.driver import state_of
from dtensor.compiler.jax_frontend import TracedArray, argument_names
from dtensor.compiler.kept_plans import kept_plan
from dtensor.compiler.layout_rules import Rule, shortest_rules
from dtensor.compiler.layouts import path_text
from dtensor.compiler.options import CompileOptions, check_arguments
from dtensor.compiler.program import ArrayInfo
from dtensor.compiler.source import Source
from dtensor.compiler.targets.target import machine_of
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import error
from dtensor.dialect.errors import CompileError, MemoryLimitError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import ARG_ATTRS, PROPAGATION_BARRIER, RES_ATTRS
from dtensor.passes.base import PassState
from dtensor.passes.cost.machine import Machine
from dtensor.passes.cost.units import quantity, seconds_text
from dtensor.passes.functions import main_function, set_boundary_layouts
from dtensor.passes.graph import Graph
from dtensor.passes.pipeline import OwnStep, Pipeline
from dtensor.passes.pipelines import pipeline_text
from dtensor.passes.planning.auto import Argument, AutoPlan, plan_arguments
from dtensor.passes.planning.limits import EFFORTS
from dtensor.passes.propagation.propagate import PropagatePass
from dtensor.passes.propagation.task import read_pins
from dtensor.passes.reports.grouping import common, without_numbers
from dtensor.runtime.shardings import AnyMesh

Carry = Mapping[int, int] | None
_NEAR = 1.001  # times what was planned; what a compilation takes more is not worth another round


class _Passed(NamedTuple):
    """A program as the passes ahead of the choice of layouts leave it."""

    module: ir.Module
    state: PassState


@dataclass(frozen=True, eq=False)
class AutoLayouts:
    """Layouts of a function's arguments, and what they cost; made by `dtensor.auto_layouts`.

    Attributes:
        mesh: the mesh.
        in_layouts: a tuple with the tree of layouts of each argument, as `dtensor.jit` takes it.
        out_layouts: the layouts of the results that are carried, those of their arguments, in the
            structure that the function returns; None for the others.
        cost: planned seconds per call.
        bound: seconds that a call takes at least, whatever the layouts that fit; None where that is
            not known, as over many mesh axes.
        bytes_per_device: what one device holds of the arguments.

    Example:
        >>> x, w = np.ones((512, 64)), np.ones((64, 64))
        >>> found = dtensor.auto_layouts(lambda x, w: jnp.tanh(x @ w), x, w, mesh=mesh)
        >>> found.bytes_per_device
        32768.0
    """

    mesh: Mesh
    in_layouts: tuple[Any, ...]
    out_layouts: Any
    cost: float
    bound: float | None
    bytes_per_device: float
    _trees: tuple[Any, ...] = field(repr=False)
    _lines: tuple[str, ...] = field(repr=False)

    @property
    def gap(self) -> float | None:
        """By what share of the cost other layouts can be cheaper at most; None if not known."""
        if self.bound is None:
            return None
        return 1.0 - self.bound / self.cost if self.cost else 0.0

    def __str__(self) -> str:
        gap = self.gap
        known = "" if gap is None else f", no layouts take more than {gap:.2%} less"
        head = (
            f"{seconds_text(self.cost)} planned per call on {self.mesh.short()}{known}; "
            f"{quantity(self.bytes_per_device, 'B')} of arguments per device"
        )
        return "\n".join([head, *self._lines])

    def as_rules(self, argnum: int = 0) -> list[Rule]:
        """The fewest rules from which `layouts_by_name` makes the layouts of one argument.

        Args:
            argnum: position of the argument.

        Raises:
            IndexError: the function was given no such argument by position.

        Example:
            >>> params = {"w": np.ones((64, 64)), "b": np.ones(64)}
            >>> found = dtensor.auto_layouts(lambda p: p["w"] + p["b"], params, mesh=mesh)
            >>> found.as_rules()
            [('^b$', [('x', 'y')]), ('^w$', ['unsharded', ('x', 'y')])]
        """
        if not 0 <= argnum < len(self._trees):
            given = len(self._trees)
            raise IndexError(f"argnum is {argnum}, and {given} arguments were given by position")
        leaves = jax.tree_util.tree_leaves_with_path(self._trees[argnum], is_leaf=is_dtensor)
        layouts = jax.tree.leaves(self.in_layouts[argnum], is_leaf=_is_layout)
        return shortest_rules([path_text(path) for path, _ in leaves], layouts)


def _is_layout(leaf: object) -> bool:
    return isinstance(leaf, Layout)


def auto_layouts(
    fn: Callable[..., Any],
    *args: Any,
    mesh: AnyMesh,
    max_bytes_per_device: float | None = None,
    fixed: Any = None,
    carry: Carry = None,
    options: CompileOptions | None = None,
) -> AutoLayouts:
    """The layouts of a function's arguments with which a call is planned to take least.

    Args:
        fn: a function of arrays that JAX can trace, as for `dtensor.jit`.
        args: its arguments, or ShapeDtypeStructs; where they lie now means nothing.
        mesh: the mesh; each of its axes may be used.
        max_bytes_per_device: of all arguments together on one device; None is no limit.
        fixed: layouts of the arguments that are known, such as the batch's: as `in_layouts` of
            `dtensor.jit` takes them, None for what is to be found.
        carry: `{argument: result}` by position: results that are the next call's arguments get
            their layouts. None ties each argument to the result of the same position if structure,
            shapes and element types are equal; `{}` ties none.
        options: of the compilation that is planned; its machine and its effort count, and what only
            a compilation can keep to, such as a budget, is refused.

    Raises:
        CompileError: the function cannot be traced, uses variables or arrays from outside, has a
            propagation barrier, or `carry` names what is not there or differs from its argument,
            or `options` has what is refused.
        LayoutError: a layout in `fixed` does not fit its argument.
        MemoryLimitError: no layouts were found that hold so few bytes.

    Example:
        >>> x, w = np.ones((512, 64)), np.ones((64, 64))
        >>> found = dtensor.auto_layouts(lambda x, w: jnp.tanh(x @ w), x, w, mesh=mesh)
        >>> [layout.short() for layout in found.in_layouts]
        ['[{"x", "y"}, {}]', '[{}, {}]']
    """
    from dtensor.compiler.api import jit

    check_arguments(fn, mesh, options)
    _check_options(options)
    CompileOptions(max_bytes_per_device=max_bytes_per_device)  # says what it may be
    tree: Any
    leaves, tree = jax.tree.flatten(args, is_leaf=is_dtensor)
    types = types_of(leaves, lambda: argument_names(fn, args, (), {}))
    structs = tree.unflatten(map(struct_of, types))
    jitted = jit(fn, in_layouts=fixed, mesh=mesh, options=options)
    source = jitted.trace(*structs)._source
    free = [layout is None or layout.has_open for layout in source.in_layouts]
    ties = ties_of(source, carry)
    plan = plan_source(source, free, ties, max_bytes_per_device)
    infos = _infos(source.args, plan.arguments)
    layouts = [info.type.layout for info in infos]
    in_layouts, _ = source.in_tree.unflatten(layouts)
    results: list[Layout | None] = [None] * source.out_tree.num_leaves
    for argument, result in ties.items():
        results[result] = layouts[argument]
    assert source.mesh is not None
    return AutoLayouts(
        source.mesh,
        in_layouts,
        source.out_tree.unflatten(results),
        plan.seconds,
        plan.bound,
        plan.bytes,
        structs,
        tuple(_lines(infos, plan, free)),
    )


def _check_options(options: CompileOptions | None) -> None:
    """Refuse what only a compilation can keep to, and this makes none."""
    default = CompileOptions()
    for name in ("strict", "budget", "max_bytes_per_device"):
        if options is not None and getattr(options, name) != getattr(default, name):
            arguments = "; the argument max_bytes_per_device limits what arguments take"
            raise CompileError(
                f"auto_layouts compiles nothing, and does not keep to options.{name}; give that to "
                f"dtensor.jit{arguments if name == 'max_bytes_per_device' else ''}"
            )


def with_auto(source: Source, free: Sequence[bool]) -> Source:
    """The program with layouts for the arguments that were left to AUTO, and results tied to them.

    Raises:
        CompileError: it uses variables or arrays from outside, or has a propagation
            barrier; the message has its line.
    """
    ties = {a: r for a, r in ties_of(source, None).items() if a in _beside(source, free)}
    plan = plan_source(source, free, ties, None)
    layouts, results = list(source.in_layouts), list(source.out_layouts)
    for number, argument in enumerate(plan.arguments):
        if free[number]:
            layouts[number] = argument.layout
    for number, result in ties.items():
        if results[result] is None:
            results[result] = layouts[number]
    return replace(source, in_layouts=tuple(layouts), out_layouts=tuple(results))


def _beside(source: Source, free: Sequence[bool]) -> set[int]:
    """The leaves of the arguments that have a leaf to be found; a state is tied as a whole."""
    found: set[int] = set()
    for part, first in _parts(source.in_tree.children()[0]):
        leaves = range(first, first + part.num_leaves)
        if any(free[leaf] for leaf in leaves):
            found.update(leaves)
    return found


def plan_source(
    source: Source, free: Sequence[bool], ties: Mapping[int, int], max_bytes: float | None
) -> AutoPlan:
    """Plan a program with the layouts of some of its arguments left free.

    Args:
        source: the program.
        free: per argument, whether its layout is to be found.
        ties: argument numbers to the numbers of the results that become them.
        max_bytes: of all arguments on one device; None is no limit.

    Raises:
        CompileError: it uses variables or arrays from outside, or has a propagation
            barrier; the message has its line.
        MemoryLimitError: nothing was found that fits.
    """
    if source.variables is not None or source.mesh is None:
        raise CompileError(
            f"{source.name} uses variables or arrays from outside, whose layouts are their own; "
            "pass their values as arguments to find layouts for them"
        )
    pinned = [
        None if is_free and not (layout is not None and layout.has_open) else layout
        for is_free, layout in zip(free, source.in_layouts, strict=True)
    ]
    given: dict[str, Any] = {
        "module": source.module,
        "filename": source.filename,
        "name": source.name,
        "mesh": source.mesh,
        "in_layouts": pinned,
        "out_layouts": source.out_layouts,
        "options": source.options,
        "machine": machine_of(source.mesh, source.target),
        "platform": source.platform,
        "ties": {a: r for a, r in ties.items() if source.out_layouts[r] is None},
        "max_bytes": max_bytes,
    }
    plan = partial(_plan, **given)
    is_kept = not (source.calls_python or source.options.is_own)
    return kept_plan(given, plan) if is_kept else plan()


def _plan(
    module: bytes | str,
    filename: str,
    name: str,
    mesh: Mesh,
    in_layouts: Sequence[Layout | None],
    out_layouts: Sequence[Layout | None],
    options: CompileOptions,
    machine: Machine | None,
    platform: str | None,
    ties: Mapping[int, int],
    max_bytes: float | None,
) -> AutoPlan:
    """The layouts with which a compilation is planned to take the least of those that were tried.

    A compilation plans from where its layouts spread, and divides no large operation less than it
    is divided there, nor uses an axis for small ones that no layout names. Where it takes more than
    was planned, layouts are looked for among plans that it could have made of those, and among
    plans that keep to the axes which are given.
    """
    before, propagate = _pipeline(options)
    best: AutoPlan | None = None
    bound: float | None = None
    every: list[Sequence[Layout] | None] = [None, ()]  # what was tried when layouts are looked for

    def passed(layouts: Sequence[Layout | None], results: Sequence[Layout | None]) -> _Passed:
        parsed = parse_module(module, filename)
        main = main_function(parsed)
        set_boundary_layouts(main, ARG_ATTRS, layouts)
        set_boundary_layouts(main, RES_ATTRS, results)
        state = state_of(options, mesh, machine, platform)
        before.run(parsed, state)
        return _Passed(parsed, state)

    with make_context(), ir.Location.unknown():
        for tried in every:
            parsed, state = passed(in_layouts, out_layouts)
            graph = state.graph_of(main_function(parsed))
            _refuse_barriers(graph, name)
            task = propagate.task_of(graph, read_pins(graph, state.meshes), state)
            found = plan_arguments(task, ties, max_bytes, EFFORTS[options.effort], tried)
            if found is None:
                continue
            layouts = [argument.layout for argument in found.arguments]
            results = list(out_layouts)
            for argument, result in ties.items():
                results[result] = layouts[argument]
            parsed, state = passed(layouts, results)
            planned = propagate.plan_ahead(main_function(parsed), state, math.inf).plan.seconds
            if tried is None:  # nothing was left out: this bounds all
                bound = found.bound
            if best is None or planned < best.seconds:
                best = replace(found, seconds=planned)
            if planned <= found.seconds * _NEAR and tried is None:
                break
            if tried is None:
                every.append(layouts)
    if best is None:
        raise MemoryLimitError(
            f"no layouts were found in which one device holds at most {max_bytes:.0f} bytes of the "
            f"arguments of {name}; use more devices, or raise max_bytes_per_device"
        )
    return replace(best, bound=None if bound is None else min(bound, best.seconds))


def _pipeline(options: CompileOptions) -> tuple[Pipeline, PropagatePass]:
    """The passes ahead of the one that decides layouts, and that one."""
    steps = Pipeline.parse(options.pipeline or pipeline_text("dtensor-spmd")).steps
    ahead = tuple(takewhile(lambda step: step.name != PropagatePass.name, steps))
    for step in steps[len(ahead) :]:
        if isinstance(step, OwnStep) and isinstance(step.transformation, PropagatePass):
            return Pipeline(ahead), step.transformation
    raise CompileError(
        f"the pipeline does not run {PropagatePass.name}, which decides what layouts cost; leave "
        "CompileOptions.pipeline out, or include it"
    )


def _refuse_barriers(graph: Graph, name: str) -> None:
    """Raise LocatedError for a barrier, whose sides are not to learn from each other."""
    for node in graph.nodes:
        if node.name == PROPAGATION_BARRIER:
            error(
                node.operation,
                f"{name} has a propagation barrier here, and layouts that are found for the whole "
                "program would pass it; give the arguments layouts of their own in place of AUTO, "
                "or take the barrier out",
            )


def ties_of(source: Source, carry: Carry) -> dict[int, int]:
    """The leaves of the results that are the next call's arguments, by leaf of the arguments.

    Raises:
        CompileError: `carry` names an argument or a result that there is none of, or two that
            differ.
    """
    arguments = _parts(source.in_tree.children()[0])
    results = _parts(source.out_tree)
    if carry is None:
        wanted = {k: k for k in range(min(len(arguments), len(results)))}
    else:
        wanted = _checked(carry)
    ties: dict[int, int] = {}
    for k, j in wanted.items():
        if not (0 <= k < len(arguments) and 0 <= j < len(results)):
            raise CompileError(
                f"carry says that result {j} becomes argument {k}; {source.name} has "
                f"{len(arguments)} arguments and {len(results)} results"
            )
        pairs = _alike(source, arguments[k], results[j])
        if pairs is None and carry is not None:
            raise CompileError(
                f"carry says that result {j} becomes argument {k}, but their structure, shapes or "
                "element types differ; name the result that has those of the argument"
            )
        ties.update(pairs or {})
    return ties


def _checked(carry: Mapping[int, int]) -> dict[int, int]:
    numbers = [n for pair in carry.items() for n in pair] if isinstance(carry, Mapping) else [None]
    if not all(isinstance(n, int) for n in numbers):
        raise CompileError(
            f"carry is {carry!r}; give positions of arguments and of the results that become them, "
            "{0: 0}"
        )
    if len(set(carry.values())) < len(carry):
        raise CompileError(f"carry is {carry!r}; a result becomes one argument")
    return dict(carry)


def _parts(tree: PyTreeDef) -> list[tuple[PyTreeDef, int]]:
    """The structures of a tuple's entries and their first leaves; of anything else, its own."""
    data = tree.node_data()
    if data is None or data[0] is not tuple:
        return [(tree, 0)]
    found, first = [], 0
    for part in tree.children():
        found.append((part, first))
        first += part.num_leaves
    return found


def _alike(
    source: Source, argument: tuple[PyTreeDef, int], result: tuple[PyTreeDef, int]
) -> dict[int, int] | None:
    if argument[0] != result[0]:
        return None
    pairs = {argument[1] + i: result[1] + i for i in range(argument[0].num_leaves)}
    for a, r in pairs.items():
        one, other = source.args[a], source.results[r]
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return None
    return pairs


def _infos(arrays: Sequence[TracedArray], found: Sequence[Argument]) -> list[ArrayInfo]:
    return [
        ArrayInfo(array.shape, array.dtype, argument.layout, array.name, key=array.key)
        for array, argument in zip(arrays, found, strict=True)
    ]


def _lines(infos: Sequence[ArrayInfo], plan: AutoPlan, free: Sequence[bool]) -> list[str]:
    """One line for each group of arguments of one layout whose names differ in numbers only."""
    found = plan.arguments
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, info in enumerate(infos):
        key = (without_numbers(info.name), info.shape, info.dtype, info.layout)
        groups.setdefault(key, []).append(number)
    lines = []
    for numbers in groups.values():
        info = infos[numbers[0]]
        shape = "x".join(map(str, info.shape)) or "scalar"
        count = f"{len(numbers)}x " if len(numbers) > 1 else ""
        held = quantity(sum(found[i].bytes for i in numbers), "B")
        lines.append(
            f"  {count}{common([infos[i].name for i in numbers])}: {info.dtype} {shape}, "
            f"{info.layout.short()}, {held}; {_why(found[numbers[0]], free[numbers[0]])}"
        )
    if plan.price:
        lines.append(
            "  to make the arguments fit, each kB on a device counts as "
            f"{seconds_text(plan.price * 1e3)}"
        )
    return lines


def _why(argument: Argument, is_free: bool) -> str:
    if not is_free:
        return "given"
    if argument.other is None:
        return "it has no other layout"
    return f"{argument.other.short()} would take {seconds_text(argument.more)} more"
