"""What the array API standard asks of an array library beside its functions."""

from __future__ import annotations

import importlib
from typing import Any

import jax.numpy as jnp

from dtensor.compiler.default_mesh import get_default_mesh
from dtensor.dialect.mesh import Mesh

# The standard's versions up to the one that jax.numpy follows; each contains those before it.
VERSIONS = tuple(
    version
    for version in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
    if version <= jnp.__array_api_version__
)


def array_namespace(api_version: str | None) -> Any:
    """The module of functions of DTensors, `dtensor.numpy`.

    Raises:
        ValueError: a version of the standard that jax.numpy does not follow.
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"array API version {api_version!r} is not supported; there are {', '.join(VERSIONS)}"
        )
    return importlib.import_module("dtensor.numpy")


class NamespaceInfo:
    """What an array library can do, in the array API's words; a device is a mesh."""

    def capabilities(self) -> dict[str, Any]:
        """Whether results may have a shape that depends on values: they may not."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Mesh | None:
        """The default mesh, if there is one."""
        return get_default_mesh()

    def default_dtypes(self, *, device: Mesh | None = None) -> dict[str, Any]:
        """The element types of arrays that are made without one, by kind."""
        return dict(jnp.__array_namespace_info__().default_dtypes())

    def devices(self) -> list[Mesh]:
        """The default mesh, if there is one: other meshes are the user's to make."""
        mesh = get_default_mesh()
        return [] if mesh is None else [mesh]

    def dtypes(self, *, device: Mesh | None = None, kind: Any = None) -> dict[str, Any]:
        """The element types of a kind, by name."""
        return dict(jnp.__array_namespace_info__().dtypes(kind=kind))
