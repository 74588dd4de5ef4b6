"""What a pass is, and what passes share while a pipeline runs."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import CompileError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir

if TYPE_CHECKING:
    from dtensor.passes.cost.machine import Machine
    from dtensor.passes.cost.model import CostModel
    from dtensor.passes.derivation import Checker
    from dtensor.passes.graph import Graph, OpReader
    from dtensor.passes.ledger import Ledger
    from dtensor.passes.ops.bodies import BodyMaker
    from dtensor.passes.ops.definition import Definition
    from dtensor.passes.planning.prices import PricesOf
    from dtensor.passes.program import Operations
    from dtensor.passes.propagation.planned import PlannedLayouts
    from dtensor.passes.propagation.propagate import Ahead
    from dtensor.passes.reports.cost import CostReport
    from dtensor.passes.rewriting.shards import Shards


class PassOptionError(CompileError):
    """An option that a pass does not have, or a value that does not fit it."""


def _new_ledger() -> Ledger:
    from dtensor.passes.ledger import Ledger

    return Ledger()


@dataclass
class PassState:
    """What passes share inside one run of a pipeline.

    Attributes:
        mesh: the mesh the program is compiled for; set by dtensor-import, or by `--mesh`.
        meshes: every mesh of the module, by symbol.
        ledger: the records of every decision.
        graph: cached reading of the IR. The pipeline drops it after every C++ pass; passes that
            change operations drop or update it themselves.
        planned: what propagation chose for `graph`; dropped with it.
        ahead: the plans that it makes of `graph`, where they are made already; dropped likewise.
        plan_checker: what dtensor-verify-plan found right, for when it runs again; C++ passes and
            dtensor-import drop it.
        prices: what relayouts cost in the plans of the program, by the sub-axes; its copies share
            them.
        cost: what plans cost; None is that of `machine`.
        machine: the machine that plans are made for; None is the default cost model.
        effort: how hard to search for a plan: "fast", "normal" or "best".
        reduce_element: element type in which sums over devices are made where values are narrower,
            as MLIR writes it; None keeps each value's own, but for float16.
        is_strict: whether plans are to move nothing that nobody asked for, at any price.
        max_bytes_per_device: what one device may hold; None is no limit.
        bytes_to_free: how much less one device is to hold than the program needs at first.
        bytes_over: how much more it needs than one device may hold, or has; written by
            dtensor-report-memory.
        definitions: operations that the user defined.
        bodies: by name of such an operation, what makes its program for shards: from shape and
            element type of each operand, a StableHLO module.
        platform: what jax calls the devices, such as "cpu"; None where they are not known.
        donated: indices of arguments whose memory the results may take.
        argument_names: what the user calls the arguments; empty where only MLIR is known.
        result_names: likewise the results.
        arg_layouts: layouts of the arguments of `@main`; written by dtensor-lower.
        result_layouts: likewise of the results.
        cost_report: what one device sends and computes; written by dtensor-report-cost.
    """

    mesh: Mesh | None = None
    meshes: dict[str, Mesh] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=_new_ledger)
    graph: Graph | None = None
    planned: PlannedLayouts | None = None
    ahead: Ahead | None = None
    plan_checker: Checker | None = None
    prices: PricesOf = field(default_factory=dict)
    cost: CostModel | None = None
    machine: Machine | None = None
    effort: str = "normal"
    reduce_element: str | None = None
    is_strict: bool = False
    max_bytes_per_device: float | None = None
    bytes_to_free: float = 0.0
    bytes_over: float = 0.0
    definitions: Sequence[Definition] = ()
    bodies: Mapping[str, BodyMaker] = field(default_factory=dict)
    platform: str | None = None
    donated: Sequence[int] = ()
    argument_names: Sequence[str] = ()
    result_names: Sequence[str] = ()
    arg_layouts: Sequence[Layout | None] = ()
    result_layouts: Sequence[Layout | None] = ()
    cost_report: CostReport | None = None
    _operations: Operations | None = field(default=None, repr=False)
    _shards: Shards | None = field(default=None, repr=False)
    _reader: OpReader | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.mesh is not None and not self.meshes:
            self.meshes = {self.mesh.symbol: self.mesh}

    def cost_model(self) -> CostModel:
        """What plans cost: as given, or on the machine, or by default.

        Raises:
            CompileError: it names an axis that the mesh does not have.
        """
        if self.cost is None:
            from dtensor.passes.cost.model import CostModel

            if self.machine is None or self.mesh is None:
                return CostModel()
            self.cost = self.machine.cost_model(self.mesh)
        if self.mesh is not None:
            names = self.mesh.axis_names
            for name in dict(self.cost.axis_links):
                if name not in names:
                    hint = did_you_mean(name, names)
                    short = self.mesh.short()
                    raise CompileError(f"axis_links names '{name}', no axis of {short}{hint}")
        return self.cost

    @property
    def runs_as_written(self) -> bool:
        """Whether the devices run kernels in the program's order, to need little memory.

        Accelerators do, nearly. XLA for CPU runs what is ready first.
        """
        platform = self.platform if self.machine is None else self.machine.platform
        return platform not in (None, "cpu")

    def graph_of(self, function: ir.Operation) -> Graph:
        """The graph of the main function, read once for passes that leave it as it is."""
        if self.graph is None:
            self.graph = self.read(function)
        return self.graph

    def read(self, function: ir.Operation) -> Graph:
        """The graph of a function, which may be of a copy of the module."""
        from dtensor.passes.graph import OpReader, read_graph

        if self._reader is None:
            self._reader = OpReader()
        return read_graph(function, self._reader)

    def shards_of(self, function: ir.Operation) -> Shards:
        """Those of the main function, read once for rewrites that leave it as it is."""
        if self._shards is None:
            from dtensor.passes.rewriting.shards import Shards

            self._shards = Shards(function, self)
        return self._shards

    def operations(self, function: ir.Operation) -> Operations:
        """Those of the main function, read once for passes that leave it as it is."""
        if self._operations is None:
            from dtensor.passes.program import Operations

            self._operations = Operations(function)
        return self._operations

    def forget_ir(self) -> None:
        """Drop what holds handles into the IR, which changes, or loses what they point to."""
        self.graph = None
        self.planned = None
        self.ahead = None
        self._operations = None
        self._shards = None


@dataclass(frozen=True)
class Pass:
    """A transformation of a module.

    Subclasses are frozen dataclasses: their fields, of type int, bool, float or str, are the
    pass's options, and their docstring is its documentation.
    """

    name: ClassVar[str]
    needs_mesh: ClassVar[bool] = False  # whether it reads a module that has one mesh

    def run(self, module: ir.Module, state: PassState) -> None:
        """Transform `module` in place.

        Raises:
            LocatedError: the user's program cannot be transformed.
        """
        raise AssertionError(f"pass {type(self).__name__} does not define run()")

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """The pass with options as text, from the command line or a pipeline.

        Raises:
            PassOptionError: an unknown option, or a value of the wrong type.
        """
        types = option_types(cls)
        values: dict[str, Any] = {}
        for written, text in options.items():
            option = written.replace("-", "_")
            if option not in types:
                hint = did_you_mean(written, [o.replace("_", "-") for o in types])
                raise PassOptionError(
                    f"pass '{cls.name}' has no option '{written}'{hint or '; it has none'}"
                )
            values[option] = _value(cls.name, written, text, types[option])
        return cls(**values)


@dataclass(frozen=True)
class Option:
    """An option of a pass, as `--list-passes` shows it."""

    name: str
    type: str
    default: str
    help: str
    has_default: bool = True


def option_types(cls: type[Pass]) -> dict[str, type]:
    """The type of each option of a pass, by field name."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def options_of(cls: type[Pass]) -> list[Option]:
    """The options of a pass; each has a default, and its line's comment is the help."""
    types, comments = option_types(cls), dict[str, str]()
    for each in reversed(cls.mro()):
        comments |= _field_comments(each)
    return [
        Option(
            item.name.replace("_", "-"),
            getattr(types[item.name], "__name__", str(types[item.name])),
            _written(item.default),
            comments.get(item.name, ""),
            item.default is not dataclasses.MISSING,
        )
        for item in dataclasses.fields(cls)
    ]


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _field_comments(cls: type) -> dict[str, str]:
    """`name: int = 1  # what it does`: the comment is the option's help."""
    try:
        lines = inspect.getsource(cls).split("\n")
    except (OSError, TypeError):
        return {}
    comments = {}
    for line in lines:
        code, mark, comment = line.partition("  # ")
        if mark and line.startswith("    ") and ":" in code:
            comments[code.split(":", 1)[0].strip()] = comment.strip()
    return comments


_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def _value(pass_name: str, option: str, text: str, kind: type) -> Any:
    try:
        if kind is bool:
            return _BOOLS[text.lower()]
        value = kind(text)
        if value != value:  # NaN, which is no number
            raise ValueError
        return value
    except (KeyError, ValueError):
        wanted = {bool: "true or false", int: "an integer", float: "a number"}.get(kind, "a string")
        raise PassOptionError(
            f"option '{option}' of pass '{pass_name}' is '{text}'; give {wanted}"
        ) from None
