"""The mesh that operations run on when no argument lies on one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from dtensor.dialect.mesh import Mesh
from dtensor.runtime.shardings import AnyMesh, as_mesh, context_mesh, default_meshes

F = TypeVar("F", bound=Callable[..., Any])


class DefaultMesh:
    """A context in which operations without a DTensor run on a mesh; made by `default_mesh`."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh

    def __repr__(self) -> str:
        return f"default_mesh({self.mesh.short()})"

    def __enter__(self) -> Mesh:
        default_meshes.set((*default_meshes.get(), self))
        return self.mesh

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The innermost is this one, unless two generators inside of a context each took turns; or
        # it is not there, where a generator is closed by another thread or task than began it.
        entered = default_meshes.get()
        for index in reversed(range(len(entered))):
            if entered[index] is self:
                default_meshes.set(entered[:index] + entered[index + 1 :])
                return

    def __call__(self, fn: F) -> F:
        """The function `fn`, each call of which runs inside of this context.

        Raises:
            TypeError: a generator function, which would run after its call has returned.
        """
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise TypeError(
                f"default_mesh cannot decorate the generator {fn.__name__}, which runs after its "
                "call has returned; write `with dtensor.default_mesh(mesh):` in its body"
            )

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await fn(*args, **kwargs)

        def called(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        wrapped: Any = awaited if inspect.iscoroutinefunction(fn) else called
        return cast(F, functools.update_wrapper(wrapped, fn))


def default_mesh(mesh: AnyMesh) -> DefaultMesh:
    """A context in which operations and programs without a DTensor run on `mesh`; also a decorator.

    It nests, ends when an exception leaves it, and holds only for the thread or the asyncio task
    that enters it. What comes of no DTensor is replicated.

    Args:
        mesh: the mesh, dtensor's or jax's.

    Raises:
        MeshError: not a mesh.

    Example:
        >>> with dtensor.default_mesh(mesh):
        ...     dtensor.numpy.zeros((4, 2)).layout
        Layout([UNSHARDED, UNSHARDED], Mesh(x=2, y=4))
    """
    return DefaultMesh(as_mesh(mesh))


def get_default_mesh() -> Mesh | None:
    """The mesh of the innermost `default_mesh` around this call, else that of `jax.set_mesh`.

    None outside of both.

    Example:
        >>> with dtensor.default_mesh(mesh):
        ...     dtensor.get_default_mesh()
        Mesh(x=2, y=4)
    """
    return context_mesh()
