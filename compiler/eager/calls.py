"""Running a function of arrays as one operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import PyTreeDef, default_registry

from dtensor.compiler.calls import are_same, meshes_in, spread
from dtensor.compiler.constraint import constrain_as
from dtensor.compiler.default_mesh import get_default_mesh
from dtensor.compiler.define_op import registered_number
from dtensor.compiler.eager.arguments import Bound, mark_numbers
from dtensor.compiler.eager.engine import NotAnArrayError, Operation, constant, load, lower
from dtensor.compiler.eager.mixing import one_mesh
from dtensor.compiler.eager.repeated import repeated
from dtensor.compiler.program import Programs, Run
from dtensor.compiler.stages import Lowered
from dtensor.dialect.errors import DTensorError, LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType, DTensor, in_program
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.tracing import becomes_program, is_eager, settings
from dtensor.runtime.variables.facts import is_readable, value_of

_flatten = default_registry.flatten
_is_leaf = DTensor.__instancecheck__

programs = Programs()
_repeated = Programs()
resets += [programs.clear, _repeated.clear]


def call(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    layouts: Any = None,
    mesh: Mesh | None = None,
) -> Any:
    """What `fn` returns for these arguments, as DTensors.

    Args:
        fn: a function that jax can trace.
        args: its arguments: trees of DTensors, numbers, small arrays and static values.
        kwargs: the same by keyword.
        name: what messages call the function.
        layouts: layouts of the results; None leaves the choice to the compiler.
        mesh: the mesh, where no argument names it; None is the default mesh.

    Raises:
        LayoutError: no mesh is known, an array lies on none, or a layout does not fit.
        MeshError: arguments lie on two meshes.
        TypeError: the function cannot be traced with these arguments.
    """
    is_plain = layouts is None and mesh is None and not becomes_program()
    again = repeated(fn, args, kwargs) if is_plain else None
    if again is not None and (known := _repeated.get(again[0])) is not None:
        return known(*again[1])
    request = requested(fn, args, kwargs, name, layouts, mesh)
    if request is None:
        return _inline(fn, args, kwargs, layouts)
    bound, key = request.bind(False)
    run = programs.get(key)
    if run is _settle:
        bound, key = request.bind(True)
        run = programs.get(key)
    if run is None:
        bound, run = _compile(request, bound, key)
    if again is not None and are_same(bound.arrays, again[1]):  # no number became an array
        _repeated[again[0]] = run
    return run(*bound.arrays)


def requested(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    layouts: Any = None,
    mesh: Mesh | None = None,
) -> Request | None:
    """The call as one for a mesh; None where it belongs to a function that jax is tracing.

    Args and errors are those of `call`.
    """
    marked, named = mark_numbers(fn, args, kwargs)
    leaves, tree = _flatten((marked, named), _is_leaf)
    leaves = [value_of(leaf) for leaf in leaves]
    known = _mesh_of(leaves)
    if becomes_program() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None  # under grad or vmap, what is not traced is a constant
    if known is None:
        if is_traced(leaves):
            return None
        known = _mesh_without_dtensor(name, layouts, mesh)
    elif mesh is not None:
        one_mesh([("the device of the result", mesh), (f"an argument of {name}", known)])
    return Request(fn, name, leaves, tree, layouts, known)


def is_traced(leaves: Sequence[Any]) -> bool:
    """Whether arguments without a DTensor belong to a function that jax is tracing."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves) or not is_eager()


@dataclass(frozen=True)
class Request:
    """A call, before its arguments are arrays on the mesh."""

    fn: Callable[..., Any]
    name: str
    leaves: Sequence[Any]
    tree: PyTreeDef
    layouts: Any
    mesh: Mesh

    def bind(self, settle: bool) -> tuple[Bound, Any]:
        """The arrays of the call, and what its program depends on.

        Args:
            settle: whether numbers and small arrays are static values.
        """
        bound = Bound(self.leaves, self.mesh, self.where, settle)
        layouts, tree = _flatten(self.layouts)
        key = (
            self.fn,
            self.tree,
            tuple(layouts),
            tree,
            self.mesh,
            settings(),
            registered_number(),
            *bound.key,
        )
        return bound, key

    def lower(self, bound: Bound) -> Lowered:
        """The program for bound arguments, lowered."""
        meshes = [
            (self.where(index), type_.layout.mesh)
            for index, type_ in zip(bound.indices, bound.types, strict=True)
            if type_.layout is not None
        ]
        one_mesh([("the layout of the result", mesh) for mesh in meshes_in(self.layouts)] + meshes)
        operation = Operation(self.fn, self.name, tuple(bound.leaves), self.tree)
        layouts = self.layouts
        if layouts is None and not bound.arrays:
            layouts = _replicated(operation, self.mesh)
        return lower(operation, bound.types, self.mesh, layouts, self.layouts is None)

    def where(self, index: int) -> str:
        """What a leaf is to the call: "numpy.add: argument 1"."""
        return f"{self.name}: argument {self._which(index)}"

    def names(self, bound: Bound) -> list[str]:
        """What the arrays of the call are to it: "1 of numpy.add", or "x of x.sum"."""
        written = getattr(self.fn, "__name__", "")
        written = written if written.startswith("x.") else self.name
        own = written.startswith(("x.", "x["))
        which = ["x" if own and not index else self._which(index) for index in bound.indices]
        return [f"{each} of {written}" for each in which]

    def _which(self, index: int) -> str:
        numbered = self.tree.unflatten(range(len(self.leaves)))
        path = jax.tree_util.tree_leaves_with_path(numbered)[index][0]
        which = jax.tree_util.keystr(path[1:2]).strip("[]")
        return f"{which}{jax.tree_util.keystr(path[2:])}"


def compiled(
    fn: Callable[..., Any], name: str, types: Sequence[ArrayType], names: Sequence[str]
) -> Run:
    """A function of arrays alone as a program for arrays of these types; compiles it now.

    Errors call it `name`, and its arguments by their `names`.
    """
    meshes = [t.layout.mesh for t in types if t.layout is not None]
    one_mesh([(f"{name}: operand {i}", mesh) for i, mesh in enumerate(meshes)])
    tree = _flatten((tuple(types), {}))[1]
    try:
        lowered = lower(Operation(fn, name, (None,) * len(types), tree), types, meshes[0])
    except Exception as error:
        raise explained(error, name) from None
    return load(lowered, names)


def _settle(*arrays: Any) -> Any:
    raise AssertionError("stands for the program of the same call with static values")


def _compile(request: Request, bound: Bound, key: Any) -> tuple[Bound, Run]:
    """A program for the call, and its arguments as that takes them."""
    try:
        run = load(request.lower(bound), request.names(bound))
    except NotAnArrayError as found:
        run = constant(found.value)
    except DTensorError:
        raise
    except Exception as error:
        if bound.is_settled:
            raise explained(error, request.name) from None
        settled, settled_key = request.bind(True)
        _, run = _compile(request, settled, settled_key)
        programs[key] = _settle
        return settled, run
    programs[key] = run
    return bound, run


def explained(error: Exception, name: str) -> Exception:
    """The error of an operation that cannot be traced, in one line that names the operation."""
    if isinstance(error, _NEEDS_VALUES) and "mode='raise'" in str(error):  # of choose
        return TypeError(
            f"{name} would look for indices out of bounds, but is compiled before there are any "
            "values; give mode='wrap' or mode='clip'"
        )
    if isinstance(error, _NEEDS_VALUES):
        return TypeError(
            f"{name} needs the values of an array, for the shape of its result or to choose what "
            "to do, but is compiled before there are any; give them as numbers, or what settles "
            "the shape where it takes that, such as size=, or read the array first: relayout it "
            "replicated, then "
            ".numpy()"
        )
    if isinstance(error, NameError) and "unbound axis name" in str(error):
        return TypeError(f"{name}: axis is the number of a dimension, not the name of a mesh axis")
    if isinstance(error, IndexError) and str(error) == "tuple index out of range":
        return IndexError(f"{name}: an axis is none of the array's dimensions, counted from 0")
    if type(error) in _BUILTIN_ERRORS:
        text = " ".join(str(error).split()).removeprefix("_")  # jax's own name of the method
        if text.endswith("unexpected keyword argument 'layout'"):
            text += f"; write dtensor.relayout(x.{name}(...), layout)"
        return type(error)(text if text.startswith(name) else f"{name}: {text}")
    return error


_NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
_BUILTIN_ERRORS = (TypeError, ValueError, IndexError, OverflowError, NotImplementedError)


def _mesh_of(leaves: Sequence[Any]) -> Mesh | None:
    for leaf in leaves:
        if isinstance(leaf, DTensor):
            return leaf.mesh
    return None


def _mesh_without_dtensor(name: str, layouts: Any, mesh: Mesh | None) -> Mesh:
    found = next(iter(meshes_in(layouts)), None) or mesh or get_default_mesh()
    if found is None and layouts is not None:
        raise LayoutError(
            f"{name} got the layout {layouts!r} of type {type(layouts).__name__}, which names no "
            "mesh; give a dtensor.Layout, or a tree with one for each result"
        )
    if found is None:
        raise LayoutError(
            f"{name} got no DTensor, so its mesh is not known; give layout=, or call it inside "
            "of dtensor.default_mesh(mesh)"
        )
    return found


def _replicated(operation: Operation, mesh: Mesh) -> Any:
    shapes = jax.eval_shape(operation)
    return jax.tree.map(lambda leaf: Layout.replicated(mesh, len(leaf.shape)), shapes)


def _is_array(value: Any) -> bool:
    return is_readable(value) or isinstance(value, DTensor)


def traced(value: Any) -> Any:
    """What a traced function computes with: arrays of jax's, also in the tuple of an index."""
    if type(value) is tuple:
        return tuple(map(traced, value))
    value = value_of(value)
    return in_program(value) if isinstance(value, DTensor) else value


def _inline(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], layouts: Any
) -> Any:
    """The call as part of the function that jax is tracing."""
    args, kwargs = jax.tree_util.tree_map(traced, (args, kwargs), is_leaf=_is_array)
    result = fn(*args, **kwargs)
    if layouts is None:
        return result
    tree: Any
    leaves, tree = jax.tree_util.tree_flatten(result)
    pairs = zip(leaves, spread(layouts, tree, "layout"), strict=True)
    return tree.unflatten(
        [leaf if layout is None else constrain_as(leaf, layout, None) for leaf, layout in pairs]
    )
