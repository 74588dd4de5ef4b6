"""What a function may do besides computing: calls of Python, in any order or in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dtensor.compiler.equations import line_of
from dtensor.dialect.errors import CompileError

# Of callbacks, by jax's names, which are not public.
_DEBUG, _IO = "OrderedDebugEffect", "OrderedIOEffect"
_CALLBACKS = ("io_callback", "pure_callback")
_PMAP_AXIS = "_internal_pmap_axis_name"  # of the mesh of the shard_map that jax.pmap is


def equations_of(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr, and of those in it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in _inside(equation):
            yield from equations_of(inner)


def refuse_effects(jaxpr: Any, effects: Any, equations: Sequence[Any]) -> None:
    """Raise where jax lowers no program of several devices, or dtensor does not know an effect.

    Args:
        jaxpr: the function.
        effects: jax's name for them.
        equations: all of the function.

    Raises:
        CompileError: there is such an effect.
    """
    names = {effect: _name(effect) for effect in effects}
    check = next((e for e in equations if e.primitive.name == "check"), None)
    if check is not None:
        raise CompileError(
            f"{line_of(check)}checkify.check has nobody to tell; write dtensor.jit(checkify."
            "checkify(f)), whose first result is the error, or checkify.checkify(dtensor.jit(f))"
        )
    unknown = [e for e, name in names.items() if "Ordered" in name and name not in (_DEBUG, _IO)]
    if unknown:
        raise CompileError(
            f"the function has effects {unknown} that a program over a mesh cannot have"
        )
    regions = [equation for equation in equations if equation.primitive.name == "shard_map"]
    pmap = next((e for e in regions if _PMAP_AXIS in e.params["mesh"].axis_names), None)
    if pmap is not None:
        raise CompileError(
            f"{line_of(pmap)}jax.pmap takes devices of its own, and a program runs on those of its "
            "mesh; write jax.vmap, whose dimension is split like any other"
        )
    if _DEBUG in names.values() and regions:
        calls = [e for e in equations if e.primitive.name.startswith("debug")]
        at = next((line_of(e) for e in calls if _DEBUG in map(_name, e.effects)), "")
        raise CompileError(
            f"{at}jax.debug with ordered=True in a program with a shard_map: jax orders its calls "
            "on one device alone; use jax.experimental.io_callback with ordered=True"
        )
    _check_regions(jaxpr, None)


def _name(effect: object) -> str:
    return type(effect).__name__


def _check_regions(jaxpr: Any, free: frozenset[str] | None) -> None:
    """Refuse what jax cannot lower in a shard_map that leaves axes free."""
    for equation in jaxpr.eqns:
        name, inside = equation.primitive.name, free
        if name == "shard_map":
            shape = equation.params["mesh"].shape
            around = free if free is not None else {axis for axis, n in shape.items() if n > 1}
            inside = frozenset(around) - equation.params["newly_manual_axes"]
        elif name in _CALLBACKS and free:
            axes = ", ".join(sorted(free))
            raise CompileError(
                f"{line_of(equation)}{name} in a shard_map that leaves {axes} to the compiler: jax "
                "does not know which devices call; put it in a shard_map over these axes inside, "
                "or in front of it or behind"
            )
        for inner in _inside(equation):
            _check_regions(inner, inside)


def _inside(equation: Any) -> Iterator[Any]:
    for parameter in equation.params.values():
        for inner in parameter if isinstance(parameter, list | tuple) else (parameter,):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield inner
