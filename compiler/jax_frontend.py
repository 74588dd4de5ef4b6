"""From a JAX function to a StableHLO module of global shapes."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.interpreters import partial_eval
from jax.tree_util import PyTreeDef

from dtensor.compiler.constraint import relayout_p
from dtensor.compiler.effects import equations_of, refuse_effects
from dtensor.compiler.equations import Placement, line_of, placements, refuse_outside
from dtensor.compiler.exported import refuse_other_devices, with_known_shapes
from dtensor.compiler.targets.target import Target
from dtensor.compiler.tokens import keep_tokens_inside
from dtensor.dialect.errors import CompileError, DTensorError, LayoutError
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import bytecode_of
from dtensor.dialect.of_torch import instead_of_torch
from dtensor.passes.functions import main_function
from dtensor.runtime.array import ON_HOST, DTensor, from_jax
from dtensor.runtime.context import has_explicit_axes, without_mesh
from dtensor.runtime.keys import KeyKind, is_key, key_kind
from dtensor.runtime.naming import first_device
from dtensor.runtime.placement import layout_of, platform_of
from dtensor.runtime.splicing import python_callbacks

_NO_ATTRIBUTE = re.compile(r"\w*Tracer has no attribute (\w+)")


@dataclass(frozen=True)
class TracedArray:
    """An argument or a result of a traced function: global shape in elements, type and name.

    Random keys are their data; `key` is then their kind. A weak type gives way to others. What is
    `without_values`, the gradient of integers, is booleans in the program, and float0 to a caller.
    """

    shape: tuple[int, ...]
    dtype: str
    name: str
    key: KeyKind | None = None
    weak_type: bool = False
    without_values: bool = False

    @property
    def outer_shape(self) -> tuple[int, ...]:
        """The shape that a caller sees: of random keys, that of the keys."""
        return self.shape if self.key is None else self.shape[: -len(self.key.shape)]

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """Shape and element type that a caller sees."""
        if self.without_values:
            return jax.ShapeDtypeStruct(self.shape, jax.dtypes.float0)
        dtype = np.dtype(self.dtype) if self.key is None else self.key.dtype
        return jax.ShapeDtypeStruct(self.outer_shape, dtype, weak_type=self.weak_type)

    @classmethod
    def of(cls, array: Any, name: str) -> TracedArray:
        """An array, or what has its shape and element type."""
        shape = tuple(array.shape)
        kind = key_kind(array.dtype)
        if array.dtype == jax.dtypes.float0:
            return cls(shape, "bool", name, without_values=True)
        if kind is None:
            return cls(shape, np.dtype(array.dtype).name, name, None, array.weak_type)
        return cls((*shape, *kind.shape), kind.data_dtype, name, kind)


def unflattening(tree: PyTreeDef, results: Sequence[TracedArray]) -> Callable[[Sequence[Any]], Any]:
    """What makes the tree that `jax.jit` would return of the arrays that a program returns."""
    unflatten: Callable[[Sequence[Any]], Any] = tree.unflatten

    def filled(arrays: Sequence[Any]) -> Any:
        leaves = list(arrays)
        for number, result in enumerate(results):
            if result.without_values:
                leaves[number] = np.zeros(result.shape, jax.dtypes.float0)
        return unflatten(leaves)

    return filled if any(result.without_values for result in results) else unflatten


@dataclass(frozen=True, eq=False)
class TracedProgram:
    """A function as a StableHLO module.

    Attributes:
        bytecode: the module, of global shapes, with the locations of the user's lines.
        args: the arguments of `@main`, one per leaf of the function's arguments.
        results: the results of `@main`.
        out_tree: structure of what the function returns.
        host_callbacks: Python functions the module calls, by callback index.
        keepalives: objects that must live as long as the module.
        meshes: meshes of the layout constraints inside, each once.
        placements: devices that jax's own shardings inside name.
        jaxpr: the function as jax traced it.
    """

    bytecode: bytes
    args: tuple[TracedArray, ...]
    results: tuple[TracedArray, ...]
    out_tree: PyTreeDef
    host_callbacks: tuple[Callable[..., Any], ...]
    keepalives: tuple[object, ...]
    meshes: tuple[Mesh, ...]
    placements: tuple[Placement, ...]
    jaxpr: Any


def trace(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    mesh: Mesh | None,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    target: Target | None = None,
    places: Mapping[int, int] | None = None,
) -> TracedProgram:
    """Trace `fn` and lower it to StableHLO.

    Args:
        fn: the function.
        args: positional arguments: trees of ShapeDtypeStructs without shardings; static ones as
            they are.
        kwargs: the same by keyword.
        mesh: the mesh of the call; bare PartitionSpecs in the function refer to it. None where it
            is not known before tracing.
        static_argnums: positions of static arguments.
        static_argnames: names of static arguments.
        target: the machine to lower for; None is that of the mesh's devices.
        places: which arguments stand for arrays that the function closes over, by their ids; None
            looks for such arrays.

    Raises:
        ClosesOverError: the function closes over arrays that are split over devices.
        CompileError: the function has effects that a program over a mesh cannot have, a
            `checkify.check` outside of `checkify`, an argument of a symbolic shape, or does
            something that the target cannot.
        LayoutError: a constraint in the function is on another mesh.
    """
    jitted = jax.jit(
        fn,
        static_argnums=tuple(static_argnums),
        static_argnames=tuple(static_argnames),
        keep_unused=True,
    )
    try:
        with _without_other_mesh(mesh):
            traced = _trace(jitted, args, kwargs, mesh)
    except TypeError as error:
        refuse_outside(error)
        raise
    constraints = list(filter(_is_constraint, equations_of(traced.jaxpr.jaxpr)))
    if places is None:
        _find_arrays(traced.jaxpr.consts, mesh)
    live = drop_dead_code(traced, places)
    equations = list(equations_of(live))
    refuse_effects(live, live.effects, equations)
    known = places or {}
    _warn_of_constants([c for c in traced.jaxpr.consts if id(c) not in known], equations)
    _refuse_other_meshes(mesh, constraints)
    _refuse_other_shardings(mesh, equations)
    try:
        lowered = _lower(traced, equations, mesh, target)
    except ValueError as error:
        refuse_other_devices(error)
        raise
    callbacks, keepalives = _callbacks_of(lowered)
    dynamic = [arg for i, arg in enumerate(args) if i not in static_argnums]
    named = {key: value for key, value in kwargs.items() if key not in static_argnames}
    infos = _infos(argument_names(fn, args, static_argnums, named), (tuple(dynamic), named))
    _refuse_symbolic(infos)
    module: Any = with_known_shapes(lowered)
    keep_tokens_inside(module)
    _check_arity(module, len(infos), traced.jaxpr.jaxpr)
    if callbacks:
        _drop_device_of_callbacks(module)
    results = [
        TracedArray.of(leaf, f"result{_key(path)}")
        for path, leaf in jax.tree_util.tree_leaves_with_path(traced.out_info)
    ]
    _warn_of_host_results(results, traced.jaxpr.out_avals)
    return TracedProgram(
        bytecode_of(module),
        tuple(infos),
        tuple(results),
        jax.tree_util.tree_structure(traced.out_info),
        callbacks,
        keepalives,
        tuple(dict.fromkeys(e.params["layout"].mesh for e in constraints)),
        placements(equations),
        traced.jaxpr,
    )


def _lower(traced: Any, equations: Sequence[Any], mesh: Mesh | None, target: Target | None) -> Any:
    if target is not None:
        from dtensor.compiler.targets.lowering import lower_for

        return lower_for(target, traced, equations)
    platform = platform_of(mesh)
    if platform is None:
        first_device()  # an error of ours, where there is none: jax lowers for its platform
    return traced.lower(lowering_platforms=None if platform is None else (platform,))


class ClosesOverError(Exception):
    """A function closes over `arrays`, which a program takes as arguments, laid out as they are.

    Each is there as jax has it, and as a DTensor.
    """

    def __init__(self, arrays: Sequence[tuple[jax.Array, DTensor]]) -> None:
        super().__init__()
        self.arrays = arrays


def _find_arrays(constants: Sequence[Any], mesh: Mesh | None) -> None:
    """Raise ClosesOverError if constants are split over the mesh: jax would gather them."""
    arrays = [
        (value, from_jax(value, mesh))
        for value in filter(_is_split, constants)
        if layout_of(value.sharding, value.ndim, mesh) is not None
    ]
    if arrays:
        raise ClosesOverError(arrays)


def _is_split(value: Any) -> bool:
    if not isinstance(value, jax.Array) or is_key(value.dtype):
        return False
    return not value.is_fully_replicated and value.sharding.memory_kind != ON_HOST


def _warn_of_constants(constants: Sequence[Any], equations: Sequence[Any]) -> None:
    """Say which arrays become constants, although they are split over devices."""
    found = [("", value) for value in constants]
    for equation in equations:
        constants = getattr(equation.params.get("jaxpr"), "consts", ())
        found += [(line_of(equation), value) for value in constants]
    for line, value in found:
        if _is_split(value):
            shape = ", ".join(map(str, value.shape))
            warnings.warn(
                f"{line}an array of {value.dtype}[{shape}] that is split over devices is a "
                "constant of the program, whole on each, since an inner jit closes over it or it "
                "lies on another mesh; pass it as an argument",
                stacklevel=2,
            )


def drop_dead_code(traced: Any, places: Mapping[int, int] | None = None) -> Any:
    """Leave out what neither a result nor an effect needs, as `jax.jit` does; all arguments stay.

    Such code need not have a lowering: the tangent of a `jax.custom_vjp` function has none.

    Args:
        traced: a `jax.stages.Traced`, of which `lower` is then without that code.
        places: which arguments, of no use yet, stand for constants, by the ids of those.

    Returns:
        The jaxpr that is lowered.
    """
    lowest = traced.lojax
    closed = lowest.jaxpr
    live, _ = partial_eval.dce_jaxpr(closed.jaxpr, True, instantiate=True)
    constants = list(closed.consts)
    if places:
        invars = list(live.invars)
        kept = []
        for var, value in zip(live.constvars, constants, strict=True):
            if id(value) in places:
                invars[places[id(value)]] = var
            else:
                kept.append((var, value))
        live = live.replace(invars=invars, constvars=[var for var, _ in kept])
        constants = [value for _, value in kept]
    lowest._params = {**lowest._params, "jaxpr": closed.replace(jaxpr=live, consts=constants)}
    return live


def argument_names(
    fn: Callable[..., Any],
    args: Sequence[Any],
    static_argnums: Sequence[int],
    kwargs: Mapping[str, Any],
) -> list[str]:
    """The names of the leaves of the arguments that are not static: `params['w']`, `args[0]`."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), "args")
    named = []
    for index, arg in enumerate(args):
        if index in static_argnums:
            continue
        known = index < len(positional)
        name = positional[index] if known else f"{rest}[{index - len(positional)}]"
        named.append((name, arg))
    named += sorted(kwargs.items())
    return [
        f"{name}{_key(path)}"
        for name, arg in named
        for path, _ in jax.tree_util.tree_leaves_with_path(arg)
    ]


def _key(path: Any) -> str:
    return jax.tree_util.keystr(path)


def _infos(names: Sequence[str], tree: Any) -> list[TracedArray]:
    leaves = jax.tree_util.tree_leaves(tree)
    return [TracedArray.of(leaf, name) for name, leaf in zip(names, leaves, strict=True)]


def _without_other_mesh(mesh: Mesh | None) -> AbstractContextManager[Any]:
    """No mesh with Explicit axes around a program of another one: what it makes would lie there."""
    around = tuple(jax.sharding.get_abstract_mesh().shape.items())
    is_other = mesh is not None and has_explicit_axes() and around != mesh.axes
    return without_mesh() if is_other else nullcontext()


def _trace(jitted: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Mesh | None) -> Any:
    try:
        return jitted.trace(*args, **kwargs)
    except AttributeError as error:
        found = _NO_ATTRIBUTE.fullmatch(str(error))
        instead = None if found is None else instead_of_torch(found[1], traced=True)
        if found is not None and instead is not None:
            raise AttributeError(
                f"an array in a traced function has no .{found[1]}; write {instead}"
            ) from None
        if found is None or not hasattr(DTensor, found[1]):
            raise
        raise AttributeError(
            f"an array in a traced function has no .{found[1]}: it is jax's, and its layout is "
            "decided only after tracing; ask the DTensor outside of the function"
        ) from None
    except (RuntimeError, ValueError) as error:
        # A bare PartitionSpec needs a mesh around it; other functions must not find one, since a
        # mesh of their own may differ in the types of its axes.
        lacks_mesh = "mesh" in str(error) and not isinstance(error, DTensorError)
        if mesh is None or not lacks_mesh or not jax.sharding.get_abstract_mesh().empty:
            raise
        lacking = error
    return _trace_under(mesh, jitted, args, kwargs, lacking)  # its errors have none behind them


def _trace_under(
    mesh: Mesh, jitted: Any, args: Sequence[Any], kwargs: Mapping[str, Any], lacking: Exception
) -> Any:
    """Trace with a mesh around it; `lacking` is what was raised without."""
    automatic = (jax.sharding.AxisType.Auto,) * len(mesh.axes)
    abstract = jax.sharding.AbstractMesh(mesh.sizes, mesh.axis_names, automatic)
    with jax.sharding.use_abstract_mesh(abstract):
        try:
            return jitted.trace(*args, **kwargs)
        except ValueError as clash:
            if "context mesh" in str(clash):  # the function has one: that was not what it lacked
                raise lacking from None
            raise


def _is_constraint(equation: Any) -> bool:
    return equation.primitive is relayout_p


def _refuse_other_meshes(mesh: Mesh | None, constraints: Sequence[Any]) -> None:
    for equation in constraints:
        layout = equation.params["layout"]
        if mesh is not None and layout.mesh != mesh:
            raise LayoutError(
                f"{line_of(equation)}relayout to {layout.short()} on {layout.mesh.short()}, in a "
                f"program that runs on {mesh.short()}; make the layout on the program's mesh"
            )
        mesh = layout.mesh


def _refuse_other_shardings(mesh: Mesh | None, equations: Sequence[Any]) -> None:
    """The same of jax's own constraints."""
    for equation in equations if mesh is not None else ():
        if equation.primitive.name != "sharding_constraint":
            continue
        other = getattr(equation.params["sharding"], "mesh", None)
        if isinstance(other, jax.sharding.Mesh) and other.axis_names:
            axes = tuple(other.shape.items())
            if mesh is not None and axes != mesh.axes:
                raise LayoutError(
                    f"{line_of(equation)}a constraint is on {Mesh(axes).short()}, in a program "
                    f"that runs on {mesh.short()}; make its sharding on the program's mesh"
                )


def _callbacks_of(lowered: Any) -> tuple[tuple[Callable[..., Any], ...], tuple[object, ...]]:
    # jax has no public way to them; without them a module with callbacks crashes the process.
    compile_args = lowered._lowering.compile_args
    return tuple(compile_args["host_callbacks"]), tuple(compile_args["keepalive"] or ())


def _drop_device_of_callbacks(module: Any) -> None:
    """Remove jax's wish that device 0 alone calls Python, which is so here, on whole arrays.

    The mesh of device 0 goes with it. One that names no device stays: jax speaks of it where keys
    are whole.
    """
    for op, _ in python_callbacks(module):
        if "sdy.sharding" in op.attributes:
            del op.attributes["sdy.sharding"]
    for op in list(module.body.operations):
        if op.operation.name == "sdy.mesh" and "device_ids" in str(op.operation.attributes["mesh"]):
            op.operation.erase()


def _refuse_symbolic(infos: Sequence[TracedArray]) -> None:
    for info in infos:
        for size in info.shape:
            if not isinstance(size, int):
                raise CompileError(
                    f"argument {info.name} has a dimension of {size} elements, whose number is "
                    "not known; a program over a mesh is made for one number: give "
                    "ShapeDtypeStructs of integers, or export jax.jit(fn)"
                )


def _warn_of_host_results(results: Sequence[TracedArray], types: Sequence[Any]) -> None:
    for result, type_ in zip(results, types, strict=True):
        if getattr(type_, "memory_space", None) == jax.memory.Space.Host:
            warnings.warn(
                f"{result.name} is put into the host's memory, but results of a program stay in "
                "the memory that devices compute in; put it there after the call, with "
                "jax.device_put",
                stacklevel=2,
            )


def _check_arity(module: Any, expected: int, jaxpr: Any) -> None:
    found = len(main_function(module).regions[0].blocks[0].arguments)
    if any(not isinstance(var.aval, jax.core.ShapedArray) for var in jaxpr.constvars):
        raise CompileError("the function uses a jax.Ref from outside of it; pass it as an argument")
    if len(jaxpr.invars) > expected:
        raise CompileError(
            "the function reads an array that another one left behind while jax traced that, "
            "which has no values; return the array from there, and pass it as an argument here"
        )
    if found != expected:
        raise CompileError(
            f"jax lowered {expected} arguments to {found}; "
            "is jax_use_simplified_jaxpr_constants or another option of jax set that adds some?"
        )
