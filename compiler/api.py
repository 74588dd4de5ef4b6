"""`dtensor.jit`: compile a JAX function written for one device for a mesh of them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Unpack, overload

import jax
from jax.sharding import get_abstract_mesh
from jax.tree_util import default_registry

from dtensor.compiler.border import (
    argument_layouts,
    data_layouts_of_results,
    data_layouts_of_types,
    mesh_of_arguments,
    one_mesh,
    result_layouts,
)
from dtensor.compiler.budget import active_budgets, check_active
from dtensor.compiler.calls import (
    TRACED,
    Donated,
    StaticArgs,
    are_same,
    as_jax,
    donated_leaves,
    is_dtensor,
    meshes_in,
    quick_flatten,
    quick_types,
    spread,
    struct_of,
    types_of,
    without_auto,
)
from dtensor.compiler.constraint import constrain_as
from dtensor.compiler.define_op import registered_number
from dtensor.compiler.equations import check_placements
from dtensor.compiler.explicit import explicit_mesh, explicit_shardings
from dtensor.compiler.jax_frontend import argument_names
from dtensor.compiler.keywords import How, check_forms, refuse_unknown
from dtensor.compiler.layouts import AUTO
from dtensor.compiler.options import CompileOptions, check_arguments, with_known_ops
from dtensor.compiler.parameters import Positional, completed, file_of, layouts_of_call, name_of
from dtensor.compiler.program import Programs
from dtensor.compiler.refs import call_with_refs, layouts_of_refs, of_values, refs_among
from dtensor.compiler.relayout import sent_by
from dtensor.compiler.source import Returns, Source
from dtensor.compiler.stages import Compiled, Lowered
from dtensor.compiler.targets.target import Target, check_mesh, take_target
from dtensor.compiler.traced import Traced
from dtensor.compiler.variables.calls import Bound, VariableCall
from dtensor.compiler.variables.scope import Scope
from dtensor.compiler.variables.tracing import Call, trace_call, values_of, watched
from dtensor.compiler.variables.use import NO_VARIABLES, Use, is_variable
from dtensor.dialect.errors import CompileError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.shardings import AnyMesh, as_mesh, context, context_mesh, default_meshes
from dtensor.runtime.tracing import becomes_program, current_scope, is_eager, settings

_flatten = default_registry.flatten
_compiled: weakref.WeakSet[JitFunction] = weakref.WeakSet()


def _forget_programs() -> None:
    for function in list(_compiled):
        function._forget()


resets.append(_forget_programs)


@overload
def jit(fn: Callable[..., Any], **how: Unpack[How]) -> JitFunction: ...


@overload
def jit(**how: Unpack[How]) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    fn: Callable[..., Any] | None = None,
    *others: Any,
    in_layouts: Any = None,
    out_layouts: Any = None,
    donate_argnums: int | Sequence[int] | None = (),
    donate_argnames: str | Sequence[str] | None = (),
    static_argnums: int | Sequence[int] | None = (),
    static_argnames: str | Sequence[str] | None = (),
    keep_unused: bool = False,
    compiler_options: Mapping[str, Any] | None = None,
    mesh: AnyMesh | None = None,
    options: CompileOptions | None = None,
    returns: Returns = "dtensor",
    **unknown: Any,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Compile `fn`, written for one device, for the devices of a mesh.

    Args:
        fn: a function of arrays that JAX can trace; its arguments and results are pytrees. It may
            take and close over DVariables, and assign to them; see docs/variables.md. Without it a
            decorator is returned: `@dtensor.jit(mesh=mesh)`.
        others: nothing; all that follows is given by keyword.
        in_layouts: layouts of the arguments: a tuple with a tree per parameter that is not static,
            or a dict by their names, or one layout for all. A layout may stand for a subtree,
            and may be a Layout, a NamedSharding, or a PartitionSpec over the mesh. None, also for a
            leaf, takes the layout the array comes in; the compiler chooses that of host arrays and
            others that lie on no mesh. `dtensor.AUTO`, for all or for parts, has the planner find
            the layouts; see docs/auto-layouts.md.
        out_layouts: layouts of the results, likewise; None leaves the choice to the compiler.
        donate_argnums: positions of arguments whose buffers the program may reuse.
        donate_argnames: names of such arguments.
        static_argnums: positions of arguments that the program is compiled for the value of.
        static_argnames: names of such arguments.
        keep_unused: taken as jax.jit has it; arguments that the function does not use are always
            kept, and have layouts.
        compiler_options: options of XLA for this program, as jax.jit takes them.
        mesh: the mesh, dtensor's or jax's; None takes it from the layouts, from the arguments, or
            from `jax.set_mesh` around the call.
        options: how to compile.
        returns: "dtensor" for results that are DTensors, whatever the arguments are; "jax" for
            jax.Arrays with NamedShardings.
        unknown: nothing; a keyword of jax.jit that is not here is an error that says what to write.

    Returns:
        A function that takes DTensors, sharded jax.Arrays or host arrays and returns DTensors.
        Programs are kept by the structure, shapes, element types and layouts of the arguments.

    Raises:
        CompileError: `options` are no CompileOptions.
        LayoutError: `in_layouts` has no such form, or layouts are on several meshes.
        MeshError: `mesh` is no mesh.
        TypeError: `fn` cannot be called, or something else is given than stands here.
        ValueError: the function lacks an argument that is named here, or `returns` is neither.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: 2 * x, in_layouts=rows)
        >>> step(np.ones((4, 8))).layout
        Layout(['x', UNSHARDED], Mesh(x=2, y=4))
    """
    refuse_unknown(others, unknown, list(How.__annotations__))
    if fn is None:
        return functools.partial(
            jit,
            in_layouts=in_layouts,
            out_layouts=out_layouts,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            keep_unused=keep_unused,
            compiler_options=compiler_options,
            mesh=mesh,
            options=options,
            returns=returns,
        )
    check_arguments(fn, mesh, options, compiler_options)
    static = StaticArgs.of(fn, static_argnums, static_argnames)
    if isinstance(in_layouts, list):
        in_layouts = tuple(in_layouts)
    check_forms(in_layouts, returns)
    known = meshes_in((in_layouts, out_layouts))
    return JitFunction(
        fn,
        in_layouts,
        out_layouts,
        completed(fn, donate_argnums, donate_argnames, "donate"),
        static,
        one_mesh(([] if mesh is None else [as_mesh(mesh)]) + known),
        options or CompileOptions(),
        tuple(sorted((compiler_options or {}).items())),
        returns,
    )


class JitFunction:
    """A function compiled for a mesh; made by `dtensor.jit`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        in_layouts: Any,
        out_layouts: Any,
        donated: Donated,
        static: StaticArgs,
        mesh: Mesh | None,
        options: CompileOptions,
        compiler_options: tuple[tuple[str, Any], ...] = (),
        returns: Returns = "dtensor",
    ) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._watched = watched(fn)
        self._in_layouts = in_layouts
        self._out_layouts = out_layouts
        self._donated = donated
        self._positional = Positional.of(fn, static.argnums)
        self._static = static
        self._split = bool(static.argnums or static.argnames)
        self._mesh = mesh
        self._options = options
        self._compiler_options = compiler_options
        self._returns = returns
        self._programs = Programs()
        self._known = Programs()  # by keys that are fast to make
        self._last: tuple[Any, Any] = None, None  # the key and the call that became known last
        self._of_refs = Programs()
        # The collectives of each program, and the arguments moved before.
        self._sent = weakref.WeakKeyDictionary[Callable[..., Any], tuple[Any, Any]]()
        _compiled.add(self)

    def __deepcopy__(self, memo: Any) -> JitFunction:
        return self  # as any function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)  # as any function

    def __repr__(self) -> str:
        return f"dtensor.jit({getattr(self._fn, '__qualname__', repr(self._fn))})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments, compiling it the first time."""
        # Kept short: this is what a call costs beyond jax's own dispatch. Most are known again by
        # what is cheapest to find out, and are like the one before: comparing shows it sooner than
        # hashing.
        around = (  # what a program depends on beside its function and its arguments
            settings(),
            (default_meshes.get() or get_abstract_mesh().axis_names) and context(),
            registered_number(),
        )
        key: Any = None
        if not self._split:
            leaves, tree = quick_flatten([args, kwargs] if kwargs else args)
            types = quick_types(leaves)
            if types is not None:
                key = (tree, types, around)
                last, call = self._last
                if key != last:
                    call = self._known.recent(key)
                if call is not None and is_eager():
                    if active_budgets():
                        self._keep_to_budgets(call)
                    return call(leaves)
        return self._call(args, kwargs, key, around)

    def _call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], known_as: Any, around: Any
    ) -> Any:
        """Run the program for any arguments, which are `known_as` this from now on."""
        refs = refs_among(args, kwargs)
        if refs and not becomes_program():
            return self._on_refs(args, kwargs, refs)
        statics: Any = None
        if self._split:
            args, kwargs, statics = self._static.split(args, kwargs)
        leaves, tree = _flatten((args, kwargs), is_dtensor)
        types = types_of(leaves, lambda: self._leaf_names(args, kwargs, statics), of_values=True)
        if becomes_program():  # of which this is a part, as a call of jax.jit's would be
            return self._inline(args, kwargs, statics)
        key = (tree, types, statics, around)
        call = self._programs.recent(key)
        if call is None:
            if TRACED in types or current_scope() is not None:
                return self._inline(args, kwargs, statics)
            call = self._programs[key] = self._caller(types, tree, statics, leaves)
        if known_as is not None and are_same(leaves, quick_flatten([args, kwargs])[0]):
            self._known[known_as] = call
            self._last = known_as, call
        if active_budgets():
            self._keep_to_budgets(call)
        return call(leaves)

    def _on_refs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], refs: Mapping[int, jax.Ref]
    ) -> Any:
        """Run the program for arguments of which these leaves are jax.Refs."""
        places, held = tuple(refs), layouts_of_refs(refs.values())
        call = self._of_refs.recent((places, held))
        if call is None:
            function, out = of_values(self._fn, places), (self._out_layouts, list(held))
            how = self._donated, self._static, self._mesh, self._options, self._compiler_options
            call = JitFunction(function, self._in_layouts, out, *how, self._returns)
            self._of_refs[places, held] = call
        return call_with_refs(call, args, kwargs, refs)

    def _keep_to_budgets(self, call: Callable[..., Any]) -> None:
        """Check a program that is about to run.

        Raises:
            BudgetError: it sends more, or otherwise, than one of the budgets allows.
        """
        check_active(name_of(self._fn), sent_by(*self._sent[call]))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace the function and give it layouts, without running anything.

        Args:
            args: arrays, or ShapeDtypeStructs; a NamedSharding in one is its layout.
            kwargs: the same by keyword. `target`, a string such as "tpu:v5e:2x4" or a Target, is
                the machine to compile for ahead of time, over whose devices the mesh is laid; what
                is compiled cannot be called here. See docs/targets.md.

        Raises:
            CompileError: the function cannot be compiled; the message names the line. Or there is
                no such target, or the mesh does not fit it.
            LayoutError: a layout does not fit its argument.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(np.ones((4, 8))).wire_bytes
            32.0
        """
        return self.trace(*args, **kwargs).lower()

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace the function: `jaxpr`, `out_info`, and `lower`; arguments and errors as `lower`."""
        target = take_target(kwargs, self._static.argnames, self._fn)
        args, kwargs, statics = self._static.split(args, kwargs)
        leaves, tree = _flatten((args, kwargs), is_dtensor)
        types = types_of(leaves, lambda: self._leaf_names(args, kwargs, statics))
        if TRACED in types:
            raise TypeError("lower takes concrete arrays or ShapeDtypeStructs, not traced arrays")
        return self._trace(types, tree, statics, target, leaves)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shape and element type of each result, as ShapeDtypeStructs; needs no mesh."""
        args, kwargs, statics = self._static.split(args, kwargs)
        leaves, tree = _flatten((args, kwargs), is_dtensor)
        types = types_of(leaves, lambda: self._leaf_names(args, kwargs, statics))
        args, kwargs = tree.unflatten(map(struct_of, types))

        def call(args: Any, kwargs: Any) -> Any:
            every, named = self._static.merge(args, kwargs, statics)
            with Scope((), ()):
                return values_of(self._fn(*every, **named))

        return jax.eval_shape(call, args, kwargs)

    def clear_cache(self) -> None:
        """Forget what was traced and compiled; the next call does it again."""
        self._forget()
        for traced in (self._fn, self._watched):
            jitted: Any = jax.jit(traced)  # traces are kept by function
            jitted.clear_cache()

    def _forget(self) -> None:
        for kept in (self._programs, self._known, self._of_refs, self._sent):
            kept.clear()
        self._last = None, None

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arrays among the arguments of a call: what is not static, flat."""
        args, kwargs, _ = self._static.split(args, kwargs)
        return list(_flatten((args, kwargs), is_dtensor)[0])

    def _caller(
        self, types: Sequence[ArrayType], tree: Any, statics: Any, leaves: Sequence[Any]
    ) -> Callable[[Sequence[Any]], Any]:
        """What runs the program for arguments of these types; `leaves` has their variables."""
        compiled = self._lower(types, tree, statics, leaves=leaves).compile()
        call = self._caller_of(compiled, types, tree, statics)
        self._sent[call] = compiled.collectives, compiled.moves(types)
        return call

    def _caller_of(
        self, compiled: Compiled, types: Sequence[ArrayType], tree: Any, statics: Any
    ) -> Callable[[Sequence[Any]], Any]:
        if compiled.variables is None:
            return compiled.caller(types)

        def compile(leaves: Sequence[Any]) -> tuple[Use, Bound]:
            again = self._lower(types, tree, statics, leaves=leaves).compile()
            return again.variables or NO_VARIABLES, again.bound(types)

        def inline(leaves: Sequence[Any]) -> Any:
            args, kwargs = tree.unflatten(leaves)
            return self._inline(args, kwargs, statics)

        return VariableCall(compiled.variables, compiled.bound(types), compile, inline)

    def _leaf_names(self, args: Any, kwargs: Any, statics: Any) -> list[str]:
        every, named = self._static.merge(args, kwargs, statics)
        return argument_names(self._fn, every, self._static.argnums, named)

    def _inline(self, args: Any, kwargs: Any, statics: Any) -> Any:
        """The function's own body, where jax is tracing a function around it."""
        self._options.warn_inside(name_of(self._fn))
        tree: Any
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=_is_leaf)
        leaves = list(map(as_jax, leaves))
        given = layouts_of_call(self._in_layouts, self._positional, args, kwargs)
        args, kwargs = self._constrained(leaves, tree, given, "in_layouts")
        every, named = self._static.merge(args, kwargs, statics)
        results, tree = jax.tree_util.tree_flatten(self._fn(*every, **named), is_leaf=is_variable)
        return self._constrained(results, tree, self._out_layouts, "out_layouts")

    def _constrained(self, leaves: Sequence[Any], tree: Any, layouts: Any, what: str) -> Any:
        pairs = zip(leaves, spread(layouts, tree, what), strict=True)
        return tree.unflatten(
            [
                constrain_as(leaf, layout, self._mesh, what)
                if not (layout is None or layout is AUTO) and isinstance(leaf, jax.core.Tracer)
                else leaf
                for leaf, layout in pairs
            ]
        )

    def _lower(
        self, types: Sequence[ArrayType], tree: Any, statics: Any, leaves: Any = None
    ) -> Lowered:
        return self._trace(types, tree, statics, None, leaves).lower()

    def _trace(
        self,
        types: Sequence[ArrayType],
        tree: Any,
        statics: Any,
        target: Target | None = None,
        leaves: Sequence[Any] | None = None,
    ) -> Traced:
        # Without the leaves no variable is looked for.
        args, kwargs = tree.unflatten(map(struct_of, types))
        every, _ = self._static.merge(args, kwargs, statics)
        names = argument_names(self._fn, every, self._static.argnums, kwargs)
        in_layouts = layouts_of_call(self._in_layouts, self._positional, args, kwargs)
        in_layouts, automatic = without_auto(in_layouts, tree)
        mesh = self._mesh or mesh_of_arguments(types, names) or context_mesh()
        call = Call(
            fn=self._fn,
            watched=self._watched,
            static=self._static,
            statics=statics,
            tree=tree,
            types=types,
            names=names,
            shardings=explicit_shardings(in_layouts, types, names, tree, mesh),
            mesh=mesh,
            target=target,
        )
        traced, use = trace_call(call, leaves)
        mesh = one_mesh([*([mesh] if mesh else []), *traced.meshes])
        if mesh is None:
            raise CompileError(
                f"no mesh for {name_of(self._fn)}: no argument and no layout names one; "
                "pass mesh= or in_layouts= to dtensor.jit, or call it with DTensors or under "
                "dtensor.default_mesh(mesh)"
            )
        if target is not None:
            check_mesh(mesh, target)
        else:
            check_placements(traced.placements, mesh)
        given = argument_layouts(in_layouts, types, names, tree, mesh)
        results = result_layouts(self._out_layouts, traced, mesh)
        as_jax = self._returns == "jax"
        source = use.bind(
            Source(
                module=traced.bytecode,
                filename=file_of(self._fn),
                name=name_of(self._fn),
                mesh=mesh,
                in_layouts=data_layouts_of_types(given, types, mesh),
                out_layouts=data_layouts_of_results(results, traced, mesh),
                options=with_known_ops(self._options, traced.bytecode),
                args=traced.args,
                results=traced.results,
                in_tree=tree,
                out_tree=traced.out_tree,
                donated=donated_leaves(args, kwargs, self._donated, self._static),
                host_callbacks=traced.host_callbacks,
                keepalives=traced.keepalives,
                target=target,
                compiler_options=self._compiler_options,
                returns=self._returns,
                explicit=explicit_mesh([type_.sharding for type_ in types]) if as_jax else None,
            )
        )
        if automatic:
            from dtensor.compiler.auto_layouts import with_auto

            source = with_auto(source, automatic)
        return Traced(source, traced.jaxpr)


def _is_leaf(value: Any) -> bool:
    return is_dtensor(value) or is_variable(value)
