"""A sharding compiler for StableHLO.

Write a program for one device, say how a few arrays are laid out over a mesh of devices, and get a
program with explicit collectives, each of which says why it is there.

The public names load on first use, so that the command-line tools need not wait for jax.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# As jax does when it is imported first: jaxlib's notes about devices stay out of sight.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

if TYPE_CHECKING:
    from dtensor.compiler.api import jit as jit
    from dtensor.compiler.layouts import layouts_by_name as layouts_by_name
    from dtensor.compiler.mlir_frontend import compile_mlir as compile_mlir
    from dtensor.compiler.mlir_frontend import lower_mlir as lower_mlir
    from dtensor.compiler.options import CompileOptions as CompileOptions
    from dtensor.compiler.program import ArrayInfo as ArrayInfo
    from dtensor.compiler.program import CompiledProgram as CompiledProgram
    from dtensor.compiler.relayout import copy_to_mesh as copy_to_mesh
    from dtensor.compiler.relayout import relayout as relayout
    from dtensor.compiler.stages import Compiled as Compiled
    from dtensor.compiler.stages import Lowered as Lowered
    from dtensor.dialect.axes import AxisRef as AxisRef
    from dtensor.dialect.errors import CompileError as CompileError
    from dtensor.dialect.errors import DTensorError as DTensorError
    from dtensor.dialect.errors import LayoutError as LayoutError
    from dtensor.dialect.errors import MemoryLimitError as MemoryLimitError
    from dtensor.dialect.errors import MeshError as MeshError
    from dtensor.dialect.errors import StrictError as StrictError
    from dtensor.dialect.errors import UnsupportedVersionError as UnsupportedVersionError
    from dtensor.dialect.layout import OPEN as OPEN
    from dtensor.dialect.layout import UNSHARDED as UNSHARDED
    from dtensor.dialect.layout import Layout as Layout
    from dtensor.dialect.mesh import Mesh as Mesh
    from dtensor.passes.cost.model import CostModel as CostModel
    from dtensor.passes.cost.model import Link as Link
    from dtensor.runtime.array import DTensor as DTensor
    from dtensor.runtime.array import from_jax as from_jax
    from dtensor.runtime.client import create_mesh as create_mesh
    from dtensor.runtime.client import (
        initialize_accelerator_system as initialize_accelerator_system,
    )
    from dtensor.runtime.client import preferred_device_type as preferred_device_type
    from dtensor.runtime.transfer import fetch_layout as fetch_layout
    from dtensor.runtime.transfer import pack as pack
    from dtensor.runtime.transfer import unpack as unpack

_HOMES = {
    "dtensor.compiler.api": ("jit",),
    "dtensor.compiler.layouts": ("layouts_by_name",),
    "dtensor.compiler.mlir_frontend": ("compile_mlir", "lower_mlir"),
    "dtensor.compiler.options": ("CompileOptions",),
    "dtensor.compiler.program": ("ArrayInfo", "CompiledProgram"),
    "dtensor.compiler.relayout": ("copy_to_mesh", "relayout"),
    "dtensor.compiler.stages": ("Compiled", "Lowered"),
    "dtensor.dialect.axes": ("AxisRef",),
    "dtensor.dialect.errors": (
        "CompileError",
        "DTensorError",
        "LayoutError",
        "MemoryLimitError",
        "MeshError",
        "StrictError",
        "UnsupportedVersionError",
    ),
    "dtensor.dialect.layout": ("OPEN", "UNSHARDED", "Layout"),
    "dtensor.dialect.mesh": ("Mesh",),
    "dtensor.passes.cost.model": ("CostModel", "Link"),
    "dtensor.runtime.array": ("DTensor", "from_jax"),
    "dtensor.runtime.client": (
        "create_mesh",
        "initialize_accelerator_system",
        "preferred_device_type",
    ),
    "dtensor.runtime.transfer": ("fetch_layout", "pack", "unpack"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dtensor' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
