"""Options of a compilation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dtensor.compiler.budget import Budget, number_of
from dtensor.compiler.define_op import DefinedOp, known_ops
from dtensor.dialect.errors import CompileError, MeshError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.machine import Machine
from dtensor.passes.cost.model import CostModel
from dtensor.passes.planning.limits import EFFORTS
from dtensor.runtime.shardings import AnyMesh

EffortName = Literal["fast", "normal", "best"]
"""How hard a plan may be searched for; passes/planning/limits.py says what each is."""

REDUCE_DTYPES = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True)
class CompileOptions:
    """How to compile a program.

    Attributes:
        strict: an operation that falls back to replication, a large one that every device of an
            axis computes alike, a relayout that nobody asked for, an argument that must be moved
            and a plan that needs more memory than a device of `machine` has are errors instead of
            records in the ledger. Where the cheapest plan moves something, a dearer one that moves
            nothing is taken, if there is one. A budget in place of True allows the relayouts that
            keep to it together, and operations computed alike: the weight gathers of fully sharded
            parameters are `dtensor.budget(only={"all_gather": "data"})`.
        max_bytes_per_device: bytes of arguments, results and temporaries that one device may hold
            by the plan. On GPUs and TPUs a program that needs more gathers values again rather
            than keep them; where that is not enough it is an error that names its largest tensors,
            before XLA compiles anything. None is no limit but what a device of `machine` has.
        reduce_dtype: element type in which sums over devices are made where the values have a
            narrower floating-point type, such as "float32" for bfloat16 gradients; None keeps
            each value's own, but for float16: parts of a sum may be beyond 65504 though it is not,
            so that they are float32.
        machine: the machine that plans are made for: a `Machine`, the name of one in
            docs/machines.md, such as "h100", or a TOML file. None takes the mesh's devices, or the
            target, where they are known; else every collective costs its bytes.
        cost: what plans cost, in place of what the machine says.
        budget: what the program may send, from `dtensor.budget`; more is an error.
        ops: definitions of operations, from `dtensor.define_op`; those that are registered are
            known too, and give way to these.
        effort: how hard to search for a plan: "fast" takes the best of what a few rounds
            lead to, "normal" looks for the cheapest, "best" goes on until none is much cheaper
            and says in the ledger how much cheaper one can be. Values never depend on it.
        pipeline: passes to run in place of the standard ones, as `dtensor-opt` writes them:
            `builtin.module(dtensor-import, ...)`. None is the standard pipeline.
        print_ir_after: names of passes after which the module is printed to stderr.

    Raises:
        CompileError: a value is not one the option can have.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> options = dtensor.CompileOptions(machine="h100", reduce_dtype="float32")
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows, options=options)
        >>> step.lower(np.ones((4, 8), jnp.bfloat16)).collectives[0].text()
        'all_reduce over x of f32 8, 32 bytes per device, once'
    """

    strict: bool | Budget = False
    max_bytes_per_device: float | None = None
    reduce_dtype: str | None = None
    machine: Machine | str | Path | None = None
    cost: CostModel | None = None
    effort: EffortName = "normal"
    pipeline: str | None = None
    print_ir_after: tuple[str, ...] = ()
    ops: Sequence[DefinedOp] = ()
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if self.max_bytes_per_device is not None:
            limit = number_of(self.max_bytes_per_device)
            if limit is None or not limit > 0:
                raise CompileError(
                    f"max_bytes_per_device is {self.max_bytes_per_device!r}; it must be a "
                    "positive number, or None"
                )
            object.__setattr__(self, "max_bytes_per_device", limit)
        if self.reduce_dtype is not None and self.reduce_dtype not in REDUCE_DTYPES:
            raise CompileError(
                f"reduce_dtype is {self.reduce_dtype!r}; it must be one of "
                f"{', '.join(REDUCE_DTYPES)}, or None"
            )
        if self.effort not in EFFORTS:
            raise CompileError(f"effort is {self.effort!r}; it must be one of {', '.join(EFFORTS)}")
        self._check_planner()
        self._check_budgets()
        ops = tuple(self.ops) if isinstance(self.ops, Iterable) else (None,)
        names = [op.name for op in ops if isinstance(op, DefinedOp)]
        if len(names) < len(ops):
            raise CompileError("ops must be a list of definitions, which dtensor.define_op makes")
        object.__setattr__(self, "ops", ops)
        for name in names:
            if names.count(name) > 1:
                raise CompileError(f"ops defines '{name}' twice; give one definition of it")
        if isinstance(self.print_ir_after, str):
            raise CompileError("print_ir_after is a string; it must be a tuple of pass names")
        object.__setattr__(self, "print_ir_after", tuple(self.print_ir_after))

    @property
    def is_own(self) -> bool:
        """Whether they name what this process alone has: operations, passes, or where to print."""
        return bool(self.ops or self.pipeline or self.print_ir_after)

    def warn_inside(self, name: str) -> None:
        """Warn where the function of that name is called in another one, which has its own."""
        default = CompileOptions()
        own = [f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)]
        if own:
            warnings.warn(
                f"{name} is called in another traced function, or a transformation of jax: "
                f"{', '.join(own)} of its options count for nothing there; give the outermost "
                "dtensor.jit function these",
                stacklevel=2,
            )

    def _check_planner(self) -> None:
        if self.machine is not None:
            if self.cost is not None:
                raise CompileError("machine and cost are both given; give one")
            object.__setattr__(self, "machine", Machine.of(self.machine))
        if not (self.cost is None or isinstance(self.cost, CostModel)):
            raise CompileError(f"cost is {self.cost!r}; make it with dtensor.CostModel(...)")
        if not (self.pipeline is None or isinstance(self.pipeline, str)):
            raise CompileError(
                f"pipeline is {self.pipeline!r}; it must be one text, such as "
                "'builtin.module(dtensor-spmd)', or None"
            )

    def _check_budgets(self) -> None:
        if not isinstance(self.strict, bool | Budget):
            raise CompileError(
                f"strict is {self.strict!r}; it must be True, False or a dtensor.budget(...)"
            )
        if not (self.budget is None or isinstance(self.budget, Budget)):
            raise CompileError(f"budget is {self.budget!r}; make it with dtensor.budget(...)")


def with_known_ops(options: CompileOptions, module: bytes | str) -> CompileOptions:
    """The options with what is registered now and the module names, so that a program keeps it."""
    known = known_ops(options.ops, module)
    return options if len(known) == len(options.ops) else replace(options, ops=known)


def check_arguments(fn: Any, mesh: Any, options: Any, compiler_options: Any = None) -> None:
    """Check what a compilation is asked for with.

    Raises:
        CompileError: `options` are no CompileOptions.
        MeshError: `mesh` is neither a Mesh nor one of jax's.
        TypeError: `fn` cannot be called, or the options of XLA are no dict.
    """
    if not callable(fn):
        kind = type(fn).__name__
        place = "mesh=" if isinstance(fn, AnyMesh) else ""
        place = "in_layouts=" if isinstance(fn, Layout) else place
        hint = f"; this one goes into {place}" if place else ""
        raise TypeError(f"dtensor.jit compiles a function, and got a value of type {kind}{hint}")
    if isinstance(fn, np.ufunc):
        name = fn.__name__
        raise TypeError(f"jax cannot trace NumPy's own numpy.{name}; give jax.numpy.{name}")
    if not (mesh is None or isinstance(mesh, AnyMesh)):
        raise MeshError(
            f"mesh= takes a Mesh, not a value of type {type(mesh).__name__}; "
            + (
                "give the one that it lies on, its .mesh"
                if isinstance(getattr(mesh, "mesh", None), Mesh)
                else "make one with dtensor.create_mesh"
            )
        )
    if not (options is None or isinstance(options, CompileOptions)):
        raise CompileError(
            f"options= takes dtensor.CompileOptions(...), not a value of type "
            f"{type(options).__name__}"
        )
    named = {} if compiler_options is None else compiler_options
    if not (isinstance(named, Mapping) and all(isinstance(name, str) for name in named)):
        raise TypeError(
            f"compiler_options is {compiler_options!r}; give a dict of XLA's options by name"
        )
