"""Tracing a function that uses variables."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import jax
from jax.sharding import NamedSharding

from dtensor.compiler.calls import StaticArgs, check_widths
from dtensor.compiler.explicit import explicit_sharding
from dtensor.compiler.jax_frontend import ClosesOverError, TracedProgram, trace
from dtensor.compiler.parameters import name_of
from dtensor.compiler.targets.target import Target
from dtensor.compiler.variables.scope import Scope, ToBeWatchedError, Unwatched
from dtensor.compiler.variables.use import NO_VARIABLES, Use, firsts_of, is_variable, pattern_of
from dtensor.dialect.errors import CompileError, LayoutError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType, DTensor
from dtensor.runtime.context import has_explicit_axes
from dtensor.runtime.variables.facts import value_of
from dtensor.runtime.variables.variable import ClosedOver, DVariable

_MOST_TRACES = 8


@dataclass(frozen=True)
class Call:
    """A function and the types it is traced for.

    Attributes:
        fn: the function.
        watched: the same, made once by `watched`.
        static: which of its arguments are static.
        statics: the values of those.
        tree: the structure of the others, `(args, kwargs)`.
        types: the types of their leaves.
        names: the names of their leaves.
        shardings: their shardings in the types that jax traces with; None where it has none.
        mesh: the mesh they lie on; None where none of them says.
        target: the machine to compile for; None is this one.
    """

    fn: Callable[..., Any]
    watched: Callable[..., Any]
    static: StaticArgs
    statics: Any
    tree: Any
    types: Sequence[ArrayType]
    names: Sequence[str]
    shardings: Sequence[NamedSharding | None]
    mesh: Mesh | None
    target: Target | None


def trace_call(call: Call, leaves: Sequence[Any] | None) -> tuple[TracedProgram, Use]:
    """Trace a function that may use variables.

    Args:
        call: the function and the types of its arguments.
        leaves: the leaves of its arguments, of which only variables matter; None looks for no
            variable at all.

    Returns:
        The program, whose results are those of the function and then the new values of variables;
        `results` and `out_tree` have those of the function alone.

    Raises:
        CompileError: the function uses other variables each time it is traced.
        LayoutError: a variable lies on another mesh than the arguments.
        TypeError: an argument has elements of 64 bits, which jax has no longer.
    """
    check_widths(call.types, call.names)
    if leaves is None:
        return _trace(call, call.fn, (), (), {}), NO_VARIABLES
    given = tuple(i for i, leaf in enumerate(leaves) if is_variable(leaf))
    passed = [leaves[i] for i in given]
    captured: tuple[DVariable, ...] = ()
    is_watched = DVariable._exist
    places: dict[int, int] | None = None
    for _ in range(_MOST_TRACES):
        use = _use(call, given, passed, captured)
        attempt = _Attempt(call, use, passed)
        try:
            if not use.is_empty:
                places = None if places is None else use.places
                around = _on_mesh_of(call, captured)
                traced = _trace(around, attempt.function, attempt.structs, given, places)
                updated = attempt.updated
                return _without_updates(traced, use), dataclasses.replace(use, updated=updated)
            with nullcontext() if is_watched else Unwatched():
                function = call.watched if is_watched else call.fn
                return _trace(call, function, (), (), places), NO_VARIABLES
        except ToBeWatchedError:
            is_watched = True
        except _IncompleteError as error:
            captured += _named(call.fn, error.found)
        except ClosesOverError as error:
            captured += _named(call.fn, [ClosedOver.constant(*found) for found in error.arrays])
            places = {}
    raise CompileError(
        f"{name_of(call.fn)} uses other variables each time it is traced, such as "
        f"{captured[-1].name!r}; pass them as arguments"
    )


def _named(fn: Callable[..., Any], found: Iterable[DVariable]) -> tuple[DVariable, ...]:
    """What a function has used; arrays among it get the names that the function has for them."""
    found = tuple(found)
    arrays = [variable for variable in found if isinstance(variable, ClosedOver)]
    names = _names_of_arrays(fn) if arrays else {}
    for number, array in enumerate(arrays):
        array.name = names.get(array.key[0], f"array {number}")
    return found


def _names_of_arrays(fn: Callable[..., Any]) -> dict[int, str]:
    """The names that a function, or one inside of it, has for arrays from outside, by their ids."""
    inside = inspect.unwrap(fn)
    if not isinstance(inside, FunctionType):
        return {}
    known = dict(inside.__globals__)
    for name, cell in zip(inside.__code__.co_freevars, inside.__closure__ or (), strict=True):
        with suppress(ValueError):  # one that has nothing yet
            known[name] = cell.cell_contents
    used = {name: known[name] for name in _names_in(inside.__code__) if name in known}
    return {
        id(getattr(value, "_array", value)): name
        for name, value in used.items()
        if type(value) is DTensor or isinstance(value, jax.Array)
    }


def _names_in(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _use(
    call: Call, given: tuple[int, ...], passed: list[DVariable], captured: tuple[DVariable, ...]
) -> Use:
    members = [*passed, *captured]
    names = [*[call.names[i] for i in given], *_unique_names(captured)]
    pattern = pattern_of(members)
    firsts = firsts_of(pattern)
    return Use(
        given,
        captured,
        pattern,
        tuple(names[i] for i in firsts),
        tuple(members[i]._own for i in firsts),
    )


class _IncompleteError(Exception):
    """The function has used variables that it did not get; they are `found`."""

    def __init__(self, found: Sequence[DVariable]) -> None:
        super().__init__()
        self.found = found


def watched(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, to be traced where it may use variables but gets none.

    jax keeps traces by the function and the shapes of its arguments, so this is made once for `fn`.
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        with Scope((), ()) as scope:
            results = values_of(fn(*args, **kwargs))
        if scope.found:
            raise _IncompleteError(scope.found)
        return results

    functools.update_wrapper(function, fn)
    function.__name__ = name_of(fn)
    return function


def values_of(results: Any) -> Any:
    """A tree, with the values of the variables in it."""
    return jax.tree_util.tree_map(value_of, results, is_leaf=is_variable)


class _Attempt:
    """A function to trace in place of the user's, which takes variables' values and gives them.

    Attributes:
        function: takes the list of values, and then the arguments without variables.
        structs: shapes and types of the values.
        updated: indices of the variables that it assigned.
    """

    def __init__(self, call: Call, use: Use, passed: Sequence[DVariable]) -> None:
        self.updated: tuple[int, ...] = ()
        self.structs = [_struct_of(type_) for type_ in use.types]
        variables = _representatives(use, passed)

        def function(values: list[Any], /, *args: Any, **kwargs: Any) -> Any:
            args, kwargs, statics = call.static.split(args, kwargs)
            leaves = call.tree.flatten_up_to((args, kwargs))
            for member, leaf in enumerate(use.leaves):
                leaves[leaf] = variables[use.firsts.index(use.pattern[member])]
            args, kwargs = call.tree.unflatten(leaves)
            every, named = call.static.merge(args, kwargs, statics)
            with Scope(variables, values) as scope:
                results = values_of(call.fn(*every, **named))
                assigned = scope.assigned(variables)
            if scope.found:
                raise _IncompleteError(scope.found)
            self.updated = tuple(assigned)
            return results, list(assigned.values())

        self.function = _like(call.fn, function)


def _struct_of(type_: ArrayType) -> jax.ShapeDtypeStruct:
    sharding = explicit_sharding(type_.layout, type_.shape) if has_explicit_axes() else None
    return jax.ShapeDtypeStruct(
        type_.shape, type_.dtype, weak_type=type_.weak_type, sharding=sharding
    )


def _representatives(use: Use, passed: Sequence[DVariable]) -> list[DVariable]:
    """What the function finds for each variable: those it closes over must be themselves."""
    variables = []
    for name, first in zip(use.names, use.firsts, strict=True):
        same = [k for k, member in enumerate(use.pattern) if member == first]
        if same[-1] >= len(passed):
            variables.append(use.captured[same[-1] - len(passed)])
        else:
            variables.append(passed[first].stand_in(name))
    return variables


def _like(fn: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """`wrapper`, named as `fn` in jax's messages, with one argument before those of `fn`."""
    functools.update_wrapper(wrapper, fn)
    wrapper.__name__ = name_of(fn)
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a builtin without a signature
        del wrapper.__wrapped__  # type: ignore[attr-defined]
        return wrapper
    first = inspect.Parameter("variables", inspect.Parameter.POSITIONAL_ONLY)
    wrapper.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[first, *signature.parameters.values()]
    )
    return wrapper


def _trace(
    call: Call,
    function: Callable[..., Any],
    values: Sequence[Any],
    given: Sequence[int],
    places: Mapping[int, int] | None,
) -> TracedProgram:
    structs = [
        None
        if i in given
        else jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type, sharding=sharding)
        for i, (t, sharding) in enumerate(zip(call.types, call.shardings, strict=True))
    ]
    args, kwargs = call.tree.unflatten(structs)
    every, named = call.static.merge(args, kwargs, call.statics)
    own = function is call.fn or function is call.watched
    return trace(
        function,
        every if own else [list(values), *every],
        named,
        mesh=call.mesh,
        static_argnums=call.static.argnums if own else [n + 1 for n in call.static.argnums],
        static_argnames=call.static.argnames,
        target=call.target,
        places=places,
    )


def _on_mesh_of(call: Call, captured: Sequence[DVariable]) -> Call:
    mesh = call.mesh
    for variable in captured:
        mesh = mesh or variable.mesh
        if variable.mesh != mesh:
            what = "the array" if isinstance(variable, ClosedOver) else "variable"
            raise LayoutError(
                f"{what} {variable.name!r} lies on {variable.mesh.short()}, and the program of "
                f"{name_of(call.fn)} runs on {mesh.short()}; a program runs on one mesh"
            )
    return dataclasses.replace(call, mesh=mesh)


def _without_updates(traced: TracedProgram, use: Use) -> TracedProgram:
    """The program, described as it is called: by the function's own results and names."""
    tree: Any = traced.out_tree
    own = tree.children()[0]
    results = [
        dataclasses.replace(info, name="result" + info.name.removeprefix("result[0]"))
        for info in traced.results[: own.num_leaves]
    ]
    count = len(use.names)
    names = [*use.names, *[info.name for info in traced.args[count:]]]
    args = [
        dataclasses.replace(info, name=name) for info, name in zip(traced.args, names, strict=True)
    ]
    meshes = dict.fromkeys([*traced.meshes, *[v.mesh for v in use.captured]])
    return dataclasses.replace(
        traced, args=tuple(args), results=tuple(results), out_tree=own, meshes=tuple(meshes)
    )


def _unique_names(variables: Sequence[DVariable]) -> list[str]:
    names: list[str] = []
    for variable in variables:
        where = "closure" if isinstance(variable, ClosedOver) else "variables"
        name, number = variable.name, 1
        while f"{where}[{name!r}]" in names:
            name, number = f"{variable.name}_{number}", number + 1
        names.append(f"{where}[{name!r}]")
    return names
