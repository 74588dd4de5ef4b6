"""The dialect's verifier: nothing that is misspelt or does not fit passes unnoticed.

MLIR accepts any dtensor operation and attribute, because the dialect is defined in Python. This
runs after parsing and after passes. A module that carries no dtensor operation costs about one
microsecond per operation: one walk, and one look at each attribute's name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from dtensor.dialect import names
from dtensor.dialect.attributes import layout_of, layouts_of_array, read_meshes
from dtensor.dialect.checks import Facts, Tensor
from dtensor.dialect.diagnostics import (
    Diagnostic,
    LocatedError,
    diagnostic,
    did_you_mean,
    from_mlir,
)
from dtensor.dialect.ends import CONVOLUTION, WINDOWED, ends_problems
from dtensor.dialect.errors import DTensorError, LayoutError
from dtensor.dialect.functions import entry_function
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir, terminator
from dtensor.dialect.ops import ANY, LOCAL_OPS, OPS, DTensorOp

_PREFIX = "dtensor."
_PREFIX_LENGTH = len(_PREFIX)


def verify_module(module: ir.Module, meshes: dict[str, Mesh] | None = None) -> None:
    """Check every operation and attribute of the dialect in `module`.

    Args:
        module: the module.
        meshes: its meshes by symbol; None reads them from it.

    Raises:
        LocatedError: something is wrong; `.diagnostics` has every finding.
    """
    found = diagnostics_of(module, meshes)
    if found:
        raise LocatedError.of(found)


def verify_all(module: ir.Module, meshes: dict[str, Mesh] | None = None) -> None:
    """MLIR's own verification of every other dialect, then `verify_module`.

    Raises:
        LocatedError: something is wrong.
    """
    try:
        module.operation.verify()
    except ir.MLIRError as failure:
        raise LocatedError.of(from_mlir(failure)) from None
    verify_module(module, meshes)


def diagnostics_of(module: ir.Module, meshes: dict[str, Mesh] | None = None) -> list[Diagnostic]:
    """Every finding about `module`, in order of place."""
    if meshes is None:
        try:
            meshes = read_meshes(module)
        except LocatedError as wrong:
            return list(wrong.diagnostics)
    found = _Verifier(module, meshes).run()
    return sorted(found, key=lambda d: (d.place.line, d.place.column) if d.place else (0, 0))


_ORDERS = ("chlo.top_k", "stablehlo.sort", names.RANKED)

# Attributes that few operations may have.
_OWNERS = {
    names.DEFINED: (("stablehlo.custom_call",), "it says what a custom call does"),
    names.SIZE: (_ORDERS, "only top_k, sort and ranked take rows that are padded"),
    names.FILL: (("stablehlo.select_and_scatter",), "only select_and_scatter pads so"),
    names.ENDS: (WINDOWED, f"only these have windows: {', '.join(WINDOWED)}"),
    names.FITS: (("stablehlo.pad",), "only a pad makes a value longer"),
    names.FOLDS: (WINDOWED, f"only these have windows: {', '.join(WINDOWED)}"),
    names.STEPS: ((CONVOLUTION,), "only a convolution has a kernel"),
    names.PLACES: (("stablehlo.sort",), "it says what a sort sorts along"),
    names.TRIPS: (("stablehlo.while",), "only a loop has trips"),
}


class _Verifier:
    """One verification of one module."""

    def __init__(self, module: ir.Module, meshes: dict[str, Mesh]) -> None:
        self.module = module
        self.meshes = meshes
        self.context = module.context
        self.found: list[Diagnostic] = []
        self.is_local = False
        self.entry = entry_function(module)
        self._tensors: dict[ir.Type, Tensor | None] = {}
        self._problems: dict[tuple[Any, ...], list[str]] = {}

    def run(self) -> list[Diagnostic]:
        ops: list[ir.Operation] = []
        advance = ir.WalkResult.ADVANCE

        # No check inside the walk: an exception would come out of it without its type.
        def collect(op: ir.Operation) -> ir.WalkResult:
            ops.append(op)
            return advance

        self.module.operation.walk(collect)
        named = [(op, op.name) for op in ops]
        self.is_local = names.LOCAL_ATTR in self.module.operation.attributes or any(
            name in LOCAL_OPS for _, name in named
        )
        checks: dict[str, Callable[[ir.Operation, str], None] | None] = {}
        for op, name in named:
            if name not in checks:
                checks[name] = self._check_for(name)
            check = checks[name]
            if check is not None:
                check(op, name)
            for attribute in op.attributes:
                if attribute[:_PREFIX_LENGTH] == _PREFIX:
                    self._discardable(op, name, attribute)
        self._check_ends(named)
        return self.found

    def _check_ends(self, visited: list[tuple[ir.Operation, str]]) -> None:
        """Report blocks that end by an operation of the dialect, which MLIR takes for a return.

        Inner operations are visited before the one around them, which ends at the module.
        """
        for (op, name), (following, _) in itertools.pairwise(visited):
            if name[:_PREFIX_LENGTH] != _PREFIX or op.parent == self.module.operation:
                continue
            if following.block != op.block and terminator(op.block) == op:
                self._report(op, f"'{name}' ends a block; put a return behind it")

    def _check_for(self, name: str) -> Callable[[ir.Operation, str], None] | None:
        """What an operation of this name must be checked for, besides its attributes."""
        if name in OPS:
            return self._dtensor_op
        if name == names.FUNC:
            return self._function
        if name.startswith(_PREFIX) or not self.context.is_registered_operation(name):
            return self._unknown_op
        return None

    def _report(self, where: ir.Operation | ir.Location, message: str) -> None:
        self.found.append(diagnostic(where, message))

    def _unknown_op(self, op: ir.Operation, name: str) -> None:
        hint = "; known dialects are stablehlo, chlo, func, sdy and dtensor"
        if name.startswith(_PREFIX):
            hint = did_you_mean(name, list(OPS))
        self._report(op, f"unknown operation '{name}'{hint}")

    # The dialect's own operations.

    def _dtensor_op(self, op: ir.Operation, name: str) -> None:
        key = (
            name,
            _items(op),
            tuple(value.type for value in op.operands),
            tuple(value.type for value in op.results),
            tuple(_ends(block) for region in op.regions for block in list(region.blocks)[:1]),
            len(op.regions),
        )
        problems = self._problems.get(key)
        if problems is None or name == names.MESH_OP:
            problems = self._problems[key] = list(self._op_problems(op, OPS[name]))
        for problem in problems:
            self._report(op, problem)

    def _op_problems(self, op: ir.Operation, known: type[DTensorOp]) -> Iterator[str]:
        name = known.OPERATION_NAME
        arity = [
            *_arity(name, "operand", len(op.operands), known.OPERANDS),
            *_arity(name, "result", len(op.results), known.RESULTS),
        ]
        if len(op.regions) > known.REGIONS:
            arity.append(f"'{name}' has a region; it takes none: remove it")
        elif len(op.regions) < known.REGIONS:
            arity.append(f"'{name}' has no region; give it what each device computes")
        yield from arity
        values, problems = self._read_attributes(op, known)
        yield from problems
        operands = [self._tensor(value.type) for value in op.operands]
        results = [self._tensor(value.type) for value in op.results]
        for type_, tensor in zip(
            [value.type for value in (*op.operands, *op.results)],
            [*operands, *results],
            strict=True,
        ):
            if tensor is None and not (known.TOKENS and _is_token(type_)):
                yield f"'{name}' works on tensors of static shape, found {type_}"
                return
        if arity or problems:
            return
        facts = Facts(
            op,
            tuple(t for t in operands if t is not None),
            tuple(t for t in results if t is not None),
            values,
        )
        for problem in known.CHECK(facts):
            yield f"'{name}' {problem}" if problem.startswith("has ") else problem

    def _read_attributes(
        self, op: ir.Operation, known: type[DTensorOp]
    ) -> tuple[dict[str, Any], list[str]]:
        name = known.OPERATION_NAME
        values: dict[str, Any] = {}
        mesh: Mesh | None = None
        problems = []
        attributes = op.attributes
        for each, kind in known.ATTRIBUTES.items():
            if each not in attributes:
                if not kind.is_optional:
                    problems.append(f"'{name}' lacks attribute '{each}'; add {kind.form}")
                continue
            try:
                value = kind.read(attributes[each], self.meshes)
            except DTensorError as wrong:
                problems.append(str(wrong))
                continue
            except (TypeError, ValueError) as wrong:  # TypeError: jaxlib has no Python class for it
                found = "found other elements" if isinstance(wrong, TypeError) else wrong
                problems.append(f"attribute '{each}' must be {kind.form}, {found}")
                continue
            if isinstance(value, tuple):
                other, value = value
                if mesh is not None and mesh != other:
                    problems.append(
                        f"attributes refer to meshes @{mesh.symbol} and @{other.symbol}; "
                        "use one mesh"
                    )
                mesh = other
            values[each] = value
        for each in attributes:
            if each not in known.ATTRIBUTES and "." not in each:
                hint = did_you_mean(each, list(known.ATTRIBUTES))
                problems.append(f"'{name}' has no attribute '{each}'{hint}")
        return values, problems

    def _tensor(self, type_: ir.Type) -> Tensor | None:
        """The type as a tensor of static shape; None if it is not one."""
        if type_ not in self._tensors:
            tensor = None
            if isinstance(type_, ir.RankedTensorType) and type_.has_static_shape:
                tensor = Tensor(tuple(type_.shape), type_.element_type)
            self._tensors[type_] = tensor
        return self._tensors[type_]

    # Attributes on operations of other dialects.

    def _discardable(self, op: ir.Operation, owner: str, name: str) -> None:
        if name in (names.OPERANDS, names.RESULTS):
            values = op.operands if name == names.OPERANDS else op.results
            types = tuple(value.type for value in values)
            key = (op.attributes[name], types)
            problems = self._problems.get(key)
            if problems is None:
                problems = list(self._list_problems(name, op.attributes[name], types))
                self._problems[key] = problems
            for problem in problems:
                self._report(op, problem)
        elif name == names.LOCAL_ATTR and owner == names.MODULE:
            return
        elif name == names.ALGORITHM:
            if not isinstance(op.attributes[name], ir.StringAttr):
                self._report(op, f"'{name}' is {op.attributes[name]}; give an algorithm's name")
        elif name in _OWNERS:
            self._owned(op, owner, name)
        elif name in (names.LOCAL_ATTR, names.LAYOUT):
            place = "the module" if name == names.LOCAL_ATTR else "function arguments and results"
            remedy = "remove it" if name == names.LOCAL_ATTR else f"use {names.RELAYOUT}"
            self._report(op, f"'{name}' stands on '{owner}'; it belongs to {place}: {remedy}")
        else:
            self._report(op, self._unknown_attribute(name))

    def _owned(self, op: ir.Operation, owner: str, name: str) -> None:
        right, why = _OWNERS[name]
        if owner not in right:
            self._report(op, f"'{name}' stands on '{owner}'; {why}")
        elif name == names.TRIPS and not isinstance(op.attributes[name], ir.IntegerAttr):
            self._report(op, f"'{name}' is {op.attributes[name]}; give how many trips there are")
        elif name in (names.ENDS, names.FOLDS):
            for problem in ends_problems(op, name):
                self._report(op, problem)

    def _unknown_attribute(self, name: str) -> str:
        return f"unknown attribute '{name}'{did_you_mean(name, list(names.DISCARDABLE))}"

    def _list_problems(
        self, name: str, attribute: ir.Attribute, types: tuple[ir.Type, ...]
    ) -> Iterator[str]:
        try:
            layouts = layouts_of_array(attribute, self.meshes)
        except LayoutError as wrong:
            yield f"'{name}': {wrong}"
            return
        if len(layouts) != len(types):
            yield (
                f"'{name}' has {len(layouts)} layouts for {len(types)} values; "
                "give one each, unit where the value is no tensor"
            )
            return
        for index, (layout, type_) in enumerate(zip(layouts, types, strict=True)):
            problem = self._misfit(layout, type_) if layout is not None else None
            if problem is not None:
                yield f"'{name}' {index}: {problem}"

    def _misfit(self, layout: Layout, type_: ir.Type, uneven: bool = False) -> str | None:
        tensor = self._tensor(type_)
        if tensor is None:
            return f"a layout needs a tensor of static shape, found {type_}"
        if not self.is_local:
            return layout.problem(tensor.shape, uneven)
        if layout.rank != len(tensor.shape):
            return (
                f"layout has {layout.rank} dimensions but the tensor has rank {len(tensor.shape)}"
            )
        return None

    # Functions.

    def _function(self, op: ir.Operation, _: str) -> None:
        attributes = op.attributes
        is_entry = self.entry is not None and op == self.entry
        signature = ir.FunctionType(ir.TypeAttr(attributes["function_type"]).value)
        for key, what, types in (
            (names.ARG_ATTRS, "argument", signature.inputs),
            (names.RES_ATTRS, "result", signature.results),
        ):
            if key not in attributes:
                continue
            entries = ir.ArrayAttr(attributes[key])
            for index, (entry, type_) in enumerate(zip(entries, types, strict=True)):
                for problem in self._border_problems(ir.DictAttr(entry), type_, is_entry):
                    where = _argument_location(op, index) if what == "argument" else op.location
                    self._report(where, f"{what} {index}: {problem}")

    def _border_problems(self, entry: ir.DictAttr, type_: ir.Type, is_entry: bool) -> Iterator[str]:
        for index in range(len(entry)):
            name = entry[index].name
            if name.startswith(_PREFIX) and name != names.LAYOUT:
                yield self._unknown_attribute(name)
        if names.LAYOUT not in entry:
            return
        try:
            layout = layout_of(entry[names.LAYOUT], self.meshes)
        except LayoutError as wrong:
            yield str(wrong)
            return
        problem = self._misfit(layout, type_, uneven=True)
        if problem is None and is_entry:
            problem = layout.border_problem()
        if problem is not None:
            yield problem


def _items(op: ir.Operation) -> tuple[Any, ...]:
    """Names and attributes, or the text where jaxlib has no Python class for one."""
    attributes = op.attributes
    try:
        return tuple((each, attributes[each]) for each in attributes)
    except TypeError:
        return (str(op),)


def _is_token(type_: ir.Type) -> bool:
    return str(type_) == "!stablehlo.token"


def _ends(block: ir.Block) -> tuple[Any, ...]:
    """What a block takes, and what its last operation says."""
    types = tuple(value.type for value in block.arguments)
    if not len(block.operations):
        return (types,)
    last = terminator(block)
    return types, last.name, *(value.type for value in last.operands)


def _arity(name: str, what: str, found: int, wanted: int | None) -> Iterator[str]:
    if wanted == ANY:
        return
    if wanted is None and found == 0:
        yield f"'{name}' has no {what}; give one or more"
    elif wanted is not None and found != wanted:
        plural = "" if wanted == 1 else "s"
        yield f"'{name}' has {found} {what}s; give {wanted} {what}{plural}"


def _argument_location(function: ir.Operation, index: int) -> ir.Location:
    blocks = function.regions[0].blocks
    location: ir.Location = function.location
    if len(blocks):
        location = blocks[0].arguments[index].location
    return location
