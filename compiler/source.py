"""A program of global shapes, and how it is called: what the stages start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from jax.sharding import AbstractMesh
from jax.tree_util import PyTreeDef

from dtensor.compiler.jax_frontend import TracedArray
from dtensor.compiler.options import CompileOptions
from dtensor.compiler.targets.target import Target
from dtensor.compiler.variables.use import Use
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.placement import platform_of

Returns = Literal["dtensor", "jax"]
"""What the results of a call are."""


@dataclass(frozen=True, eq=False)
class Source:
    """A program of global shapes, and how it is called.

    Attributes:
        module: StableHLO, as text or bytecode.
        filename: what locations in `module` without a file belong to.
        name: name of the function.
        mesh: the mesh; None where the module says it.
        in_layouts: layout of each argument, None to leave the choice to the compiler.
        out_layouts: layout of each result, likewise.
        options: how to compile.
        args: shape, type and name of each argument.
        results: the same of each result.
        in_tree: structure of `(args, kwargs)`.
        out_tree: structure of what a call returns.
        donated: indices of the arguments whose buffers may be reused.
        host_callbacks: Python functions that the module calls, by callback index.
        keepalives: objects that must live as long as the program.
        target: the machine to compile for ahead of time; None is this one.
        compiler_options: options of XLA, sorted by name.
        returns: whether a call returns DTensors or jax.Arrays.
        explicit: the mesh in whose axis types it will return jax.Arrays; None for type Auto.
        variables: the variables it takes first and gives back last; None for none.
    """

    module: bytes | str
    filename: str
    name: str
    mesh: Mesh | None
    in_layouts: tuple[Layout | None, ...]
    out_layouts: tuple[Layout | None, ...]
    options: CompileOptions
    args: tuple[TracedArray, ...]
    results: tuple[TracedArray, ...]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    donated: tuple[int, ...] = ()
    host_callbacks: tuple[Callable[..., Any], ...] = ()
    keepalives: tuple[object, ...] = ()
    target: Target | None = None
    compiler_options: tuple[tuple[str, Any], ...] = ()
    returns: Returns = "dtensor"
    explicit: AbstractMesh | None = None
    variables: Use | None = None

    @property
    def calls_python(self) -> bool:
        """Whether it calls Python functions, which another process does not have."""
        return bool(self.host_callbacks or self.keepalives)

    @property
    def platform(self) -> str | None:
        """What jax calls the devices that it is written for; None where they are not known."""
        return platform_of(self.mesh) if self.target is None else self.target.lowering_platform

    def short(self) -> str:
        """Its name and mesh, for representations: `step on mesh(x=2, y=4)`."""
        return self.name if self.mesh is None else f"{self.name} on {self.mesh.short()}"
