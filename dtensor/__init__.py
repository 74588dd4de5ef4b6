"""A sharding compiler for StableHLO.

Write a program for one device, say how a few arrays are laid out over a mesh of devices, and get a
program with explicit collectives, each of which says why it is there.

The public names load on first use, so that the command-line tools need not wait for jax.

Examples in docstrings are run with eight devices, `import dtensor, jax, numpy as np`, `jnp` for
`jax.numpy`, and `mesh = dtensor.create_mesh([("x", 2), ("y", 4)])`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dtensor.dialect.loading import load

__version__ = "0.1.0"

# As jax does when it is imported first: jaxlib's notes about devices stay out of sight.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

if TYPE_CHECKING:
    from dtensor import numpy as numpy
    from dtensor import random as random
    from dtensor import tpu as tpu
    from dtensor.compiler.api import jit as jit
    from dtensor.compiler.auto_layouts import AutoLayouts as AutoLayouts
    from dtensor.compiler.auto_layouts import auto_layouts as auto_layouts
    from dtensor.compiler.budget import Budget as Budget
    from dtensor.compiler.budget import budget as budget
    from dtensor.compiler.call_with_layout import call_with_layout as call_with_layout
    from dtensor.compiler.compare import compare as compare
    from dtensor.compiler.default_mesh import default_mesh as default_mesh
    from dtensor.compiler.default_mesh import get_default_mesh as get_default_mesh
    from dtensor.compiler.define_op import DefinedOp as DefinedOp
    from dtensor.compiler.define_op import define_op as define_op
    from dtensor.compiler.layouts import AUTO as AUTO
    from dtensor.compiler.layouts import layouts_by_name as layouts_by_name
    from dtensor.compiler.mlir_frontend import compile_mlir as compile_mlir
    from dtensor.compiler.mlir_frontend import lower_mlir as lower_mlir
    from dtensor.compiler.options import CompileOptions as CompileOptions
    from dtensor.compiler.program import ArrayInfo as ArrayInfo
    from dtensor.compiler.program import CompiledProgram as CompiledProgram
    from dtensor.compiler.relayout import copy_to_mesh as copy_to_mesh
    from dtensor.compiler.relayout import relayout as relayout
    from dtensor.compiler.relayout import relayout_like as relayout_like
    from dtensor.compiler.stages import Compiled as Compiled
    from dtensor.compiler.stages import Lowered as Lowered
    from dtensor.compiler.traced import Traced as Traced
    from dtensor.compiler.variables.engine import DVariable as DVariable
    from dtensor.compiler.variables.engine import enable_save_as_bf16 as enable_save_as_bf16
    from dtensor.compiler.verification.report import Difference as Difference
    from dtensor.compiler.verification.report import Verification as Verification
    from dtensor.compiler.verification.verify import verify as verify
    from dtensor.compiler.visualize import visualize as visualize
    from dtensor.dialect.axes import AxisRef as AxisRef
    from dtensor.dialect.device_spec import DeviceSpec as DeviceSpec
    from dtensor.dialect.diagnostics import LocatedError as LocatedError
    from dtensor.dialect.errors import BudgetError as BudgetError
    from dtensor.dialect.errors import CheckpointError as CheckpointError
    from dtensor.dialect.errors import ClientError as ClientError
    from dtensor.dialect.errors import CompileError as CompileError
    from dtensor.dialect.errors import ConfigError as ConfigError
    from dtensor.dialect.errors import DTensorError as DTensorError
    from dtensor.dialect.errors import LayoutError as LayoutError
    from dtensor.dialect.errors import MemoryLimitError as MemoryLimitError
    from dtensor.dialect.errors import MeshError as MeshError
    from dtensor.dialect.errors import NotFoundError as NotFoundError
    from dtensor.dialect.errors import StrictError as StrictError
    from dtensor.dialect.errors import UnsupportedVersionError as UnsupportedVersionError
    from dtensor.dialect.layout import MATCH as MATCH
    from dtensor.dialect.layout import OPEN as OPEN
    from dtensor.dialect.layout import UNSHARDED as UNSHARDED
    from dtensor.dialect.layout import Layout as Layout
    from dtensor.dialect.layout_members import LayoutType as LayoutType
    from dtensor.dialect.mesh import Mesh as Mesh
    from dtensor.dialect.mesh_members import MeshDimension as MeshDimension
    from dtensor.passes.cost.machine import Level as Level
    from dtensor.passes.cost.machine import Machine as Machine
    from dtensor.passes.cost.model import CostModel as CostModel
    from dtensor.passes.cost.model import Link as Link
    from dtensor.passes.pipeline_text import PipelineError as PipelineError
    from dtensor.passes.reports.cost import Collective as Collective
    from dtensor.runtime.array import DTensor as DTensor
    from dtensor.runtime.array import from_jax as from_jax
    from dtensor.runtime.checkpoint.checkpoint import DTensorCheckpoint as DTensorCheckpoint
    from dtensor.runtime.checkpoint.named import list_checkpoint as list_checkpoint
    from dtensor.runtime.checkpoint.named import name_based_restore as name_based_restore
    from dtensor.runtime.checkpoint.named import name_based_save as name_based_save
    from dtensor.runtime.checkpoint.named import sharded_save as sharded_save
    from dtensor.runtime.checkpoint.series import latest_checkpoint as latest_checkpoint
    from dtensor.runtime.client import create_mesh as create_mesh
    from dtensor.runtime.clients.accelerators import (
        initialize_accelerator_system as initialize_accelerator_system,
    )
    from dtensor.runtime.clients.accelerators import (
        initialize_multi_client as initialize_multi_client,
    )
    from dtensor.runtime.clients.accelerators import initialize_tpu_system as initialize_tpu_system
    from dtensor.runtime.clients.accelerators import (
        shutdown_accelerator_system as shutdown_accelerator_system,
    )
    from dtensor.runtime.clients.accelerators import shutdown_tpu_system as shutdown_tpu_system
    from dtensor.runtime.clients.agreement import barrier as barrier
    from dtensor.runtime.clients.config import device_name as device_name
    from dtensor.runtime.clients.config import local_devices as local_devices
    from dtensor.runtime.clients.config import num_global_devices as num_global_devices
    from dtensor.runtime.clients.config import num_local_devices as num_local_devices
    from dtensor.runtime.clients.config import preferred_device_type as preferred_device_type
    from dtensor.runtime.clients.distributed_mesh import (
        create_distributed_mesh as create_distributed_mesh,
    )
    from dtensor.runtime.clients.environment import client_id as client_id
    from dtensor.runtime.clients.environment import full_job_name as full_job_name
    from dtensor.runtime.clients.environment import heartbeat_enabled as heartbeat_enabled
    from dtensor.runtime.clients.environment import job_name as job_name
    from dtensor.runtime.clients.environment import jobs as jobs
    from dtensor.runtime.clients.environment import num_clients as num_clients
    from dtensor.runtime.data.dataset import DTensorDataset as DTensorDataset
    from dtensor.runtime.placement import named_sharding as named_sharding
    from dtensor.runtime.transfer import check_layout as check_layout
    from dtensor.runtime.transfer import fetch_layout as fetch_layout
    from dtensor.runtime.transfer import is_dtensor as is_dtensor
    from dtensor.runtime.transfer import pack as pack
    from dtensor.runtime.transfer import unpack as unpack

_HOMES = {
    "dtensor.compiler.api": ("jit",),
    "dtensor.compiler.auto_layouts": (
        "AutoLayouts",
        "auto_layouts",
    ),
    "dtensor.compiler.call_with_layout": ("call_with_layout",),
    "dtensor.compiler.default_mesh": (
        "default_mesh",
        "get_default_mesh",
    ),
    "dtensor.compiler.layouts": (
        "AUTO",
        "layouts_by_name",
    ),
    "dtensor.compiler.mlir_frontend": (
        "compile_mlir",
        "lower_mlir",
    ),
    "dtensor.compiler.budget": ("Budget", "budget"),
    "dtensor.compiler.compare": ("compare",),
    "dtensor.compiler.define_op": ("DefinedOp", "define_op"),
    "dtensor.compiler.options": ("CompileOptions",),
    "dtensor.compiler.program": (
        "ArrayInfo",
        "CompiledProgram",
    ),
    "dtensor.compiler.relayout": (
        "copy_to_mesh",
        "relayout",
        "relayout_like",
    ),
    "dtensor.compiler.stages": (
        "Compiled",
        "Lowered",
    ),
    "dtensor.compiler.traced": ("Traced",),
    "dtensor.compiler.variables.engine": (
        "DVariable",
        "enable_save_as_bf16",
    ),
    "dtensor.compiler.verification.report": (
        "Difference",
        "Verification",
    ),
    "dtensor.compiler.verification.verify": ("verify",),
    "dtensor.compiler.visualize": ("visualize",),
    "dtensor.dialect.axes": ("AxisRef",),
    "dtensor.dialect.diagnostics": ("LocatedError",),
    "dtensor.dialect.device_spec": ("DeviceSpec",),
    "dtensor.dialect.errors": (
        "BudgetError",
        "CheckpointError",
        "ClientError",
        "CompileError",
        "ConfigError",
        "DTensorError",
        "LayoutError",
        "MemoryLimitError",
        "MeshError",
        "NotFoundError",
        "StrictError",
        "UnsupportedVersionError",
    ),
    "dtensor.dialect.layout": (
        "MATCH",
        "OPEN",
        "UNSHARDED",
        "Layout",
    ),
    "dtensor.dialect.layout_members": ("LayoutType",),
    "dtensor.dialect.mesh": ("Mesh",),
    "dtensor.dialect.mesh_members": ("MeshDimension",),
    "dtensor.passes.cost.machine": (
        "Level",
        "Machine",
    ),
    "dtensor.passes.cost.model": (
        "CostModel",
        "Link",
    ),
    "dtensor.passes.pipeline_text": ("PipelineError",),
    "dtensor.passes.reports.cost": ("Collective",),
    "dtensor.runtime.clients.accelerators": (
        "initialize_accelerator_system",
        "initialize_multi_client",
        "initialize_tpu_system",
        "shutdown_accelerator_system",
        "shutdown_tpu_system",
    ),
    "dtensor.runtime.array": (
        "DTensor",
        "from_jax",
    ),
    "dtensor.runtime.clients.agreement": ("barrier",),
    "dtensor.runtime.checkpoint.checkpoint": ("DTensorCheckpoint",),
    "dtensor.runtime.checkpoint.named": (
        "list_checkpoint",
        "name_based_restore",
        "name_based_save",
        "sharded_save",
    ),
    "dtensor.runtime.checkpoint.series": ("latest_checkpoint",),
    "dtensor.runtime.client": ("create_mesh",),
    "dtensor.runtime.clients.config": (
        "device_name",
        "local_devices",
        "num_global_devices",
        "num_local_devices",
        "preferred_device_type",
    ),
    "dtensor.runtime.clients.environment": (
        "client_id",
        "full_job_name",
        "heartbeat_enabled",
        "job_name",
        "jobs",
        "num_clients",
    ),
    "dtensor.runtime.data.dataset": ("DTensorDataset",),
    "dtensor.runtime.clients.distributed_mesh": ("create_distributed_mesh",),
    "dtensor.runtime.placement": ("named_sharding",),
    "dtensor.runtime.transfer": (
        "check_layout",
        "fetch_layout",
        "is_dtensor",
        "pack",
        "unpack",
    ),
}
_SUBMODULES = ("numpy", "random", "tpu")
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


if not TYPE_CHECKING:  # which then find misspelt names

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            return load(f"dtensor.{name}")
        if name not in _HOME_OF:
            from dtensor.dialect.diagnostics import did_you_mean

            # Names that begin so are what tools ask every module for, often.
            hint = "" if name.startswith("_") else did_you_mean(name, __all__, listed=False)
            raise AttributeError(f"module 'dtensor' has no attribute '{name}'{hint}")
        value = globals()[name] = getattr(load(_HOME_OF[name]), name)
        return value


def __dir__() -> list[str]:
    private = {"TYPE_CHECKING", "annotations", "load", "os"}
    return sorted({*globals(), *__all__, *_SUBMODULES} - private)
