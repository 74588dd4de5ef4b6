"""Ops that fetch the same of neighbours: the plan counts what the program sends."""

import random

import numpy as np
import pytest

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.cost.model import CostModel, Link
from dtensor.passes.pipeline import Pipeline
from dtensor.passes.planning import plan as planning
from dtensor.passes.planning import solve as solving
from dtensor.passes.planning.descend import Changes
from dtensor.passes.planning.limits import Limits
from dtensor.passes.planning.model import make_model
from dtensor.passes.planning.options import Strategy
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.relax import fixed_cost, relaxed_model
from dtensor.passes.planning.solve import lower_bound
from tests.py.passes.planning.test_plans_are_cheapest import cheapest, keep_few
from tests.py.passes.run_passes import MESH, after

BYTES_PER_SECOND = 1e11
BYTES_ALONE = CostModel(Link(alpha=1e-15, bytes_per_second=BYTES_PER_SECOND))
TYPE = "tensor<2x16x32x3xf32>"
SPLITS = [
    "{}, {'x'}, {'y'}, {}",
    "{}, {'y'}, {}, {}",
    "{}, {'y', 'x'}, {}, {}",
    "{'x'}, {}, {'y'}, {}",
]


def program(ops: list[str], split: str) -> str:
    """The sum of some ops on one image: `conv3` has a window of 3x3, `max5` one of 5x5."""
    layout = f"#dtensor.layout<@mesh, [{split}]>".replace("'", '"')
    lines, total = [], ""
    for i, op in enumerate(ops):
        kind, size = op[:-1], int(op[-1])
        lines += _conv(i, size) if kind == "conv" else _window(i, kind, size)
        lines.append(f"%s{i} = stablehlo.add {total}, %v{i} : {TYPE}" if total else "")
        total = f"%s{i}" if total else f"%v{i}"
    body = "\n  ".join(lines)
    value = f"{TYPE} {{dtensor.layout = {layout}}}"
    return f"func.func @main(%a: {value}) -> ({value}) {{\n  {body}\n  return {total} : {TYPE}\n}}"


def _conv(i: int, size: int) -> list[str]:
    kernel, pad = f"tensor<{size}x{size}x3x3xf32>", size // 2
    return [
        f"%k{i} = stablehlo.constant dense<{i + 1}.0> : {kernel}",
        f"%v{i} = stablehlo.convolution(%a, %k{i}) "
        "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{pad = [[{pad}, {pad}], [{pad}, {pad}]]}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} "
        f": ({TYPE}, {kernel}) -> {TYPE}",
    ]


def _window(i: int, kind: str, size: int) -> list[str]:
    pad = size // 2
    start = {"add": "0.0", "max": "0xFF800000"}[kind]
    name = {"add": "add", "max": "maximum"}[kind]
    return [
        f"%z{i} = stablehlo.constant dense<{start}> : tensor<f32>",
        f'%v{i} = "stablehlo.reduce_window"(%a, %z{i}) <{{',
        f"  padding = dense<[[0, 0], [{pad}, {pad}], [{pad}, {pad}], [0, 0]]> : tensor<4x2xi64>,",
        f"  window_dimensions = array<i64: 1, {size}, {size}, 1>}}> ({{",
        "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):",
        f"    %r = stablehlo.{name} %x, %y : tensor<f32>",
        "    stablehlo.return %r : tensor<f32>",
        f"  }}) : ({TYPE}, tensor<f32>) -> {TYPE}",
    ]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "ops",
    [
        ["conv3", "conv3"],
        ["conv3", "conv3", "conv3"],
        ["add3", "add3"],
        ["add3", "max3"],
        ["conv3", "add3"],
    ],
    ids="-".join,
)
def test_what_is_planned_is_sent(ops: list[str], split: str) -> None:
    planned, sent = bytes_of(ops, split)
    assert sent > 0
    assert planned == pytest.approx(sent, rel=1e-6)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("ops", [["conv3", "conv5"], ["conv3", "conv5", "conv3"]])
def test_the_longest_of_unequal_halos_is_sent(ops: list[str], split: str) -> None:
    """The plan counts each of them by itself; along a second dimension they are of other values."""
    planned, sent = bytes_of(ops, split)
    alone, longest = bytes_of(["conv5"], split)
    assert alone == pytest.approx(longest, rel=1e-6)
    assert longest <= sent < planned
    if split.count("{}") == 3:  # one dimension is split
        assert sent == longest


def bytes_of(ops: list[str], split: str) -> tuple[float, float]:
    """Of a program, what is planned and what is sent."""
    with make_context(), ir.Location.unknown():
        module = parse_module(program(ops, split), "test.mlir")
        state = PassState(mesh=MESH, cost=BYTES_ALONE)
        Pipeline.parse("dtensor-spmd").run(module, state)
    assert state.cost_report is not None
    (plan,) = state.ledger.of_kind("plan")
    sent = sum(collective.bytes for collective in state.cost_report.collectives)
    return plan.communication * BYTES_PER_SECOND, sent


def _check_all_agree(problem: Problem, assignment: list[Strategy]) -> None:
    """The model that is eliminated, and the costs of single changes, are those of the problem."""
    problem.now[:] = assignment
    model = make_model(problem)
    cost = (model.cost(model.start) + fixed_cost(problem)) * 1e-6
    assert cost == pytest.approx(problem.total(), rel=1e-9)
    for node in problem.pairs[0]:
        totals = []
        for strategy in problem.options(node).strategies:
            problem.now[node] = strategy
            totals.append(problem.total())
        problem.now[node] = assignment[node]
        seconds = Changes(problem).seconds(node)
        assert seconds - seconds[0] == pytest.approx(np.array(totals) - totals[0], abs=1e-15)


@pytest.mark.parametrize("seed", range(8))
def test_of_plans_that_share_one_of_the_cheapest_is_found(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve, compared = solving.solve, []

    def solved(problem: Problem, limits: Limits) -> int:
        assert problem.pairs
        rng = random.Random(seed)
        keep_few(problem, rng)
        start = list(problem.now)
        for _ in range(10):
            drawn = [rng.choice(problem.options(n).strategies) for n in range(len(start))]
            _check_all_agree(problem, drawn)
        problem.now[:] = start
        least = cheapest(problem)
        fixed = fixed_cost(problem)
        bound = lower_bound(relaxed_model(problem), problem.total() * 1e6 - fixed).cost + fixed
        held = solve(problem, limits)
        assert problem.total() == pytest.approx(least, rel=1e-9)
        assert bound * 1e-6 <= least * (1 + 1e-9)
        compared.append(seed)
        return held

    monkeypatch.setattr(solving, "solve", solved)
    monkeypatch.setattr(planning, "_has_choice", lambda problem: True)
    text = program(["conv3", "conv3"], SPLITS[seed % len(SPLITS)])
    with after("builtin.module(dtensor-import, dtensor-propagate)", text, MESH):
        assert compared
