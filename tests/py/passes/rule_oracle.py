"""Checks one op's rule and expander by numbers, without collectives and without propagation.

For a label of the rule (factor, position M, axis of n devices) NumPy cuts the operands into shards
by the label's places, each shard runs through the expanded op, NumPy puts the shards of the
results together again, and the outcome must be what the op gives on whole operands. Parts
(`PartialPass`, `Factor.partial_operands`) are checked likewise: an operand is the sum (or the
maximum, ...) of random parts. All shards of all labels of one op are compiled into one XLA module.

Nothing here is taken from the compiler but the rule, the layouts and `ExpandPass` itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtensor.compiler.verification.shards import COMBINE
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.context import make_context
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.rule import OpInfo, OpRule
from dtensor.passes.ops.table import rule_of
from tests.py.passes.rule_labels import (
    NUMPY_TYPES,
    Array,
    Coordinates,
    Label,
    Tensor,
    arrange,
    labels_of,
    parts_of,
    random_values,
)
from tests.py.passes.rule_shards import Call, expanded, function_of, operation_of, run_calls

__all__ = ["NUMPY_TYPES", "Array", "Report", "check_rule", "letters", "op_module"]


@dataclass(frozen=True)
class Report:
    """What was checked.

    Attributes:
        rule: the rule of the op.
        labels: every valid label of one axis, as `(letter, M, n)`.
        passes: every partial pass, as `(operands, results)`.
        pairs: number of pairs of labels over two axes.
    """

    rule: OpRule
    labels: list[tuple[str, int, int]]
    passes: list[tuple[tuple[str | None, ...], tuple[str | None, ...]]]
    pairs: int


def op_module(arguments: str, op: str, results: str) -> str:
    """A module of one function that holds one op.

    Args:
        arguments: names and types, `a: 4x6xf32, b: f32`; may be empty.
        op: the op on `%a`, `%b`, without its results: `stablehlo.add %a, %b : tensor<4x6xf32>`.
        results: types of its results, `4x6xf32, i32`.
    """
    names = [part.split(":") for part in arguments.split(", ")] if arguments else []
    head = ", ".join(f"%{name.strip()}: tensor<{type_.strip()}>" for name, type_ in names)
    types = [f"tensor<{r}>" for r in results.split(", ")]
    values = ", ".join(f"%0#{i}" for i in range(len(types))) if len(types) > 1 else "%0"
    bind = f"%0:{len(types)}" if len(types) > 1 else "%0"
    return (
        f"func.func @main({head}) -> ({', '.join(types)}) {{\n  {bind} = {op}\n"
        f"  return {values} : {', '.join(types)}\n}}"
    )


def letters(report: Report) -> str:
    """The factors of which a label was checked."""
    return "".join(sorted({factor for factor, _, _ in report.labels}))


@dataclass
class Subject:
    """One op in a module, its rule, and what it gives on whole operands."""

    text: str
    info: OpInfo
    rule: OpRule
    inputs: dict[int, Array]
    operand_argument: list[int]  # per operand, the function argument it is


def subject(module: ir.Module, text: str, inputs: Mapping[int, Array]) -> Subject:
    op = operation_of(module)
    arguments = list(function_of(module).regions[0].blocks[0].arguments)
    operands = [ir.RankedTensorType(v.type) for v in op.operands]
    results = [ir.RankedTensorType(v.type) for v in op.results]
    info = OpInfo(
        op,
        op.name,
        tuple(tuple(t.shape) for t in operands),
        tuple(tuple(t.shape) for t in results),
        tuple(str(t.element_type) for t in operands),
        tuple(str(t.element_type) for t in results),
    )
    rule = rule_of(info)
    assert rule is not None, f"{op.name} has no rule"
    return Subject(text, info, rule, dict(inputs), [arguments.index(v) for v in op.operands])


@dataclass
class _Trial:
    """One arrangement: its tensors, its whole operands and the calls made for it."""

    what: str
    axes: dict[str, int]
    operands: list[Tensor]
    results: list[Tensor]
    reference: Call
    shards: list[tuple[Coordinates, Call]]


def check_rule(
    text: str,
    *,
    inputs: Mapping[int, Array] | None = None,
    sizes: Sequence[int] = (2, 3, 4),
    tolerance: float = 0.0,
    max_pairs: int = 12,
) -> Report:
    """Check every label and pass of the rule of one op against the op on whole operands.

    Args:
        text: a module with one function that holds the op on its arguments and returns its
            results.
        inputs: per operand number, its value; others are random and make sums exact.
        sizes: numbers of shards to try.
        tolerance: largest error, relative to the largest element of the result: 0 demands that
            every element is equal. For bf16 sums, (shards + 1) * 2**-8 is right.
        max_pairs: how many pairs of labels over two axes to try, evenly spread.
    """
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        it = subject(module, text, inputs or {})
        single = labels_of(it.rule, sizes)
        ways = [Label(sizes[0], pass_index=i) for i in range(len(it.rule.passes))]
        chosen: list[dict[str, Label]] = [{}]
        chosen += [{"x": label} for label in (*single, *ways)]
        pairs = list(_pairs(it, [*single, *ways]))
        step = max(1, math.ceil(len(pairs) / max_pairs)) if max_pairs else len(pairs) + 1
        taken = pairs[::step] if max_pairs else []
        functions = {"whole": _renamed(module, "whole")}
        trials = [_trial(it, labels, functions) for labels in [*chosen, *taken]]
        calls = [c for t in trials for c in (t.reference, *(call for _, call in t.shards))]
        run_calls(functions, calls)
        for trial in trials:
            _compare(it, trial, tolerance)
    letters = [
        (chr(ord("a") + label.factor), label.position, label.size)
        for label in single
        if label.factor is not None
    ]
    return Report(it.rule, letters, [(p.operands, p.results) for p in it.rule.passes], len(taken))


def _renamed(module: ir.Module, name: str) -> str:
    function = function_of(module)
    function.attributes["sym_name"] = ir.StringAttr.get(name)
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    return str(function)


def _pairs(it: Subject, labels: Sequence[Label]) -> list[dict[str, Label]]:
    return [
        {"x": first, "y": second}
        for first, second in itertools.product(labels, labels)
        if arrange(it.rule, it.info, {"x": first, "y": second}) is not None
    ]


def _trial(it: Subject, labels: dict[str, Label], functions: dict[str, str]) -> _Trial:
    what = f"{it.info.name} {it.rule} with {labels}"
    arranged = arrange(it.rule, it.info, labels)
    assert arranged is not None, what
    operands, results = arranged
    mesh = Mesh({axis: label.size for axis, label in labels.items()} or {"x": 1})
    rng = np.random.default_rng(7)
    wholes: dict[int, Array] = {}
    parts: dict[int, dict[tuple[int, ...], Array]] = {}
    for k, tensor in enumerate(operands):
        given = it.inputs.get(k)
        whole = random_values(rng, tensor.shape, tensor.element) if given is None else given
        argument = it.operand_argument[k]
        if argument not in wholes:
            wholes[argument], parts[argument] = parts_of(rng, tensor, whole)
    name = f"shard{len(functions)}"
    functions[name], asked = expanded(
        it.text, mesh, [t.layout(mesh) for t in operands], [t.layout(mesh) for t in results], name
    )
    sizes = {axis: label.size for axis, label in labels.items()}
    shards = []
    for position in itertools.product(*map(range, sizes.values())):
        at = dict(zip(sizes, position, strict=True))
        values: dict[int, Array] = {}
        for k, tensor in enumerate(operands):
            own = tuple(at[axis] for axis in (*tensor.parts, *tensor.owned))
            argument = it.operand_argument[k]
            values[argument] = tensor.cut(parts[argument][own], at)
        coordinates = [_coordinate(axes, at) for axes in asked]
        inputs = [values[i] for i in range(len(values))] + coordinates
        shards.append((at, Call(name, inputs)))
    whole_inputs = [wholes[i] for i in range(len(wholes))]
    return _Trial(what, sizes, operands, results, Call("whole", whole_inputs), shards)


def _coordinate(axes: Sequence[AxisRef], at: Coordinates) -> Array:
    number = 0
    for axis in axes:
        number = number * axis.size + at[axis.name]
    return np.array(number, np.int32)


def _compare(it: Subject, trial: _Trial, tolerance: float) -> None:
    for r, tensor in enumerate(trial.results):
        pieces: dict[tuple[tuple[int, ...], ...], dict[tuple[int, ...], Array]] = {}
        for at, call in trial.shards:
            cell = tuple(tuple(int(i) for i in index) for index in tensor.indices(at))
            own = tuple(at[axis] for axis in tensor.parts)
            held = pieces.setdefault(cell, {})
            if own in held:
                message = f"{trial.what}: result {r} differs between shards that should agree"
                np.testing.assert_array_equal(held[own], call.outputs[r], message)
            held[own] = call.outputs[r]
        expected = trial.reference.outputs[r]
        actual = np.empty_like(expected)
        for cell, held in pieces.items():
            with np.errstate(all="ignore"):
                actual[np.ix_(*cell) if cell else ()] = _combined(tensor, list(held.values()))
        _assert_close(actual, expected, tolerance, f"{trial.what}: result {r}")


def _combined(tensor: Tensor, parts: list[Array]) -> Array:
    if not tensor.parts:
        return parts[0]
    kind = next(iter(tensor.parts.values()))[0]
    total = parts[0]
    for part in parts[1:]:
        total = COMBINE[kind](total, part).astype(part.dtype)
    return total


def _assert_close(actual: Array, expected: Array, tolerance: float, message: str) -> None:
    wide: Any = np.complex128 if np.iscomplexobj(expected) else np.float64
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected, message)
        return
    have, want = actual.astype(wide), expected.astype(wide)
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(have, want, rtol=0, atol=tolerance * scale, err_msg=message)
