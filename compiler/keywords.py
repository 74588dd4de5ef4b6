"""What `dtensor.jit` takes beside the function, and what to write in place of other things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from dtensor.compiler.layouts import is_layout_leaf
from dtensor.compiler.options import CompileOptions
from dtensor.compiler.source import Returns
from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import LayoutError
from dtensor.runtime.shardings import AnyMesh

_SHARDINGS = "which takes NamedShardings and PartitionSpecs as it takes Layouts"
_OF_JAX = {
    "in_shardings": f"write in_layouts=, {_SHARDINGS}",
    "out_shardings": f"write out_layouts=, {_SHARDINGS}",
    "device": "a program runs on the devices of its mesh: give mesh=",
    "backend": "a program runs on the devices of its mesh: give mesh=",
    "inline": "leave it out: a function called in another one is a part of its program",
    "abstracted_axes": "leave it out: shapes are known when a program is compiled",
}
"""Keywords of jax.jit that dtensor.jit has not."""


class How(TypedDict, total=False):
    """What `jit` takes beside the function."""

    in_layouts: Any
    out_layouts: Any
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Sequence[str] | None
    static_argnums: int | Sequence[int] | None
    static_argnames: str | Sequence[str] | None
    keep_unused: bool
    compiler_options: Mapping[str, Any] | None
    mesh: AnyMesh | None
    options: CompileOptions | None
    returns: Returns


def refuse_unknown(others: Sequence[Any], unknown: Mapping[str, Any], known: Sequence[str]) -> None:
    """Check that nothing was given that `dtensor.jit` does not take.

    Args:
        others: what was given by position after the function.
        unknown: what was given by keywords that it does not have.
        known: its keywords.

    Raises:
        TypeError: something was; the message says what to write.
    """
    if others:
        raise TypeError(
            f"dtensor.jit got a value of type {type(others[0]).__name__} after the function; what "
            "goes with it is given by keyword, as in_layouts= or mesh="
        )
    for name in unknown:
        if name in _OF_JAX:
            raise TypeError(f"dtensor.jit takes no {name}=; {_OF_JAX[name]}")
        raise TypeError(f"dtensor.jit takes no {name}={did_you_mean(name, known)}")


def check_forms(in_layouts: Any, returns: Any) -> None:
    """Check what has one of several forms.

    Raises:
        LayoutError: `in_layouts` is no tuple, no dict and no layout.
        ValueError: `returns` is neither "dtensor" nor "jax".
    """
    for key in in_layouts if isinstance(in_layouts, dict) else ():
        if not isinstance(key, str):
            raise LayoutError(f"in_layouts has the key {key!r}; its keys are names of arguments")
    if not (is_layout_leaf(in_layouts) or isinstance(in_layouts, tuple | dict)):
        raise LayoutError(
            f"in_layouts is of type {type(in_layouts).__name__}; give a tuple with one entry per "
            "argument, a dict by their names, or one layout for all of them"
            + ("; a mesh goes into mesh=" if isinstance(in_layouts, AnyMesh) else "")
        )
    if returns not in ("dtensor", "jax"):
        raise ValueError(f"returns is {returns!r}; it must be 'dtensor' or 'jax'")
