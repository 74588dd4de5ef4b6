"""Plans over many mesh axes, of which not all strategies are considered at once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.compiler.options import EffortName
from dtensor.dialect.mesh import Mesh
from dtensor.passes.planning import solve as solving
from dtensor.passes.planning import strategies
from dtensor.passes.planning.limits import EFFORTS, Limits
from dtensor.passes.planning.prices import Prices
from dtensor.passes.planning.problem import Problem
from dtensor.passes.propagation import propagate
from dtensor.passes.propagation.places import MAX_RANK
from dtensor.passes.propagation.turns import in_turn
from tests.py.passes.planning.small_graphs import small_program
from tests.py.passes.run_passes import after

TWO = Mesh([("x", 2), ("y", 4)])
THREE = Mesh([("x", 2), ("y", 2), ("z", 2)])
CUT = {"x": {2, 4}}
PASSES = "builtin.module(dtensor-import, dtensor-propagate)"


def planned_seconds(text: str, mesh: Mesh) -> float:
    with after(PASSES, text, mesh) as (_, state):
        return sum(record.seconds for record in state.ledger.of_kind("plan"))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 60, 2))
def test_a_plan_for_an_axis_in_two_is_no_dearer_than_one_for_the_axis(seed: int) -> None:
    text = small_program(seed, ("x", "y"))
    in_two = text.replace('"y"', '"y", "z"')
    assert planned_seconds(in_two, THREE) <= planned_seconds(text, TWO) * (1 + 1e-9)


@pytest.mark.parametrize(("weights", "together"), [("abc", True), ("ab", False)])
def test_axes_that_are_only_named_together_move_together_first(
    weights: str, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, splits = solving._search, list[set[frozenset[int]]]()

    def look(problem: Problem, limits: Limits) -> bool:
        ways = [
            problem.maker.places(problem.graph.nodes[example], strategy)[0]
            for node, example in enumerate(problem.example)
            if problem.graph.nodes[example].rule
            for strategy in problem.options(node).strategies
        ]
        splits.append({frozenset([place % MAX_RANK for place in places]) for places in ways})
        return search(problem, limits)

    monkeypatch.setattr(solving, "_search", look)
    monkeypatch.setitem(EFFORTS, "normal", replace(EFFORTS["normal"], small=0))
    mesh = Mesh.abstract([("a", 2), ("b", 2), ("c", 2)])
    rows = dtensor.Layout([tuple("abc"), None], mesh)
    array: Any = jax.ShapeDtypeStruct
    lowered = dtensor.jit(
        lambda x, y: jnp.tanh(x) + y,
        in_layouts=(rows, dtensor.Layout([tuple(weights), None], mesh)),
        out_layouts=dtensor.Layout([None, tuple("abc")], mesh),
    ).lower(array((64, 32), jnp.float32), array((64, 32), jnp.float32))
    assert lowered.wire_bytes > 0
    assert ({1} in splits[0]) == together  # all three may split the columns at once


ACROSS = """
func.func @main(%a: tensor<64x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
                %b: tensor<16x256xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
    -> (tensor<64x256xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<64x16xf32>, tensor<16x256xf32>) -> tensor<64x256xf32>
  return %0 : tensor<64x256xf32>
}"""


def test_a_matmul_may_lie_otherwise_no_more_divided_than_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splits: list[int] = []

    def look(problem: Problem, limits: Limits) -> bool:
        problem.let_change((frozenset(range(3)),))
        (dot,) = [n for n, e in enumerate(problem.example) if problem.graph.nodes[e].rule]
        assert problem.start[dot].split == 2
        splits.extend([s.split for s in problem.options(dot).strategies])
        return False

    monkeypatch.setattr(solving, "solve", look)
    with after(PASSES[:-1] + "{min-flops=50000})", ACROSS, THREE):
        pass
    assert splits.count(2) > 1
    assert splits.count(8) > 1
    assert set(splits) == {2, 8}  # it starts at 2, and 8 is what it can be divided by


def step(weights: Any, x: Any, y: Any) -> Any:
    """A training step of a network of two layers."""

    def loss(weights: Any) -> Any:
        up, down = weights
        return jnp.mean((jnp.tanh(x @ up) @ down - y) ** 2)

    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))


def lowered_step(mesh: dtensor.Mesh, effort: EffortName = "normal") -> Any:
    """The step of a large batch, whose weights are split over `model` and what else there is."""
    array: Any = jax.ShapeDtypeStruct
    weights = (array((96, 160), jnp.float32), array((160, 48), jnp.float32))
    batch = (array((65536, 96), jnp.float32), array((65536, 48), jnp.float32))
    data, *rest, model = mesh.axis_names
    others = tuple(rest)
    layouts = (
        (dtensor.Layout([others, model], mesh), dtensor.Layout([model, others], mesh)),
        dtensor.Layout([(data, *others), None], mesh),
        dtensor.Layout([(data, *others), None], mesh),
    )
    options = dtensor.CompileOptions(effort=effort)
    return dtensor.jit(step, in_layouts=layouts, options=options).lower(weights, *batch)


@pytest.mark.sweep
@pytest.mark.parametrize("effort", ["fast", "normal", "best"])
@pytest.mark.parametrize("names", [["fsdp"], ["fsdp", "part"]])
def test_small_weights_move_and_a_large_batch_stays(names: list[str], effort: EffortName) -> None:
    axes = [("data", 2), *((name, 2) for name in names), ("model", 2)]
    planned = lowered_step(dtensor.Mesh.abstract(axes), effort)
    devices = 2 ** len(axes)
    weights = 4 * (96 * 160 + 160 * 48)
    # Gathered, over all axes but one; and their gradients reduced over all devices.
    gathered = weights * (1 - 2 / devices)
    reduced = weights * 2
    batch = 4 * 65536 * (96 + 48) / devices
    assert planned.wire_bytes <= gathered + reduced < batch / 4


def test_an_axis_that_nobody_names_makes_no_plan_dearer() -> None:
    """The rows are split by data ahead of fsdp, which the weights name more of, and it first."""

    def loss(weights: Any, x: Any) -> Any:
        for up, down in weights:
            x = x + jnp.tanh(x @ up) @ down
        return jnp.mean(x**2)

    def planned(*names: str) -> dtensor.Lowered:
        mesh = dtensor.Mesh.abstract([(name, 2) for name in names])
        rows = dtensor.Layout([("data", "fsdp"), None], mesh)
        up = dtensor.Layout(["fsdp", "model"], mesh), jax.ShapeDtypeStruct((32, 64), jnp.float32)
        down = dtensor.Layout(["model", "fsdp"], mesh), jax.ShapeDtypeStruct((64, 32), jnp.float32)
        layouts, weights = zip(up, down, strict=True)
        x = jax.ShapeDtypeStruct((64, 32), jnp.float32)
        gradient = dtensor.jit(jax.grad(loss), in_layouts=([layouts] * 2, rows))
        return gradient.lower([weights] * 2, x)

    def seconds(lowered: dtensor.Lowered) -> float:
        (record,) = [r for r in lowered.ledger["records"] if r["kind"] == "plan"]
        return float(record["seconds"])

    without = planned("data", "fsdp", "model")
    assert seconds(planned("data", "fsdp", "seq", "model")) <= seconds(without) * (1 + 1e-9)


@pytest.mark.long
def test_of_a_plan_that_left_strategies_out_nobody_says_that_none_is_cheaper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    three = Mesh.abstract([("data", 2), ("fsdp", 2), ("model", 2)])
    bound = "no plan that lays equal layers out alike is"
    assert bound in lowered_step(three, "best").explain()
    monkeypatch.setattr(strategies, "_MOST_OF_NODE", 20)
    assert bound in lowered_step(three, "best").explain()  # they are considered after all
    monkeypatch.setitem(EFFORTS, "best", replace(EFFORTS["best"], proof=0))
    assert "cheaper" not in lowered_step(three, "best").explain()


@pytest.mark.parametrize("seed", range(6))
def test_where_one_axis_may_change_the_others_stay(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def solve(problem: Problem, limits: Limits) -> bool:
        for axis in range(3):
            problem.let_change((frozenset([axis]),))
            held = [other for other in range(3) if other != axis]
            for number, now in enumerate(problem.now):
                node = problem.graph.nodes[problem.example[number]]
                before = problem.maker.places(node, now)
                for strategy in problem.options(number).strategies:
                    places = problem.maker.places(node, strategy)
                    pairs = zip(before, places, strict=True)
                    assert all(had[a] == has[a] for had, has in pairs for a in held)
                    compared.append(places != before)
        return False

    monkeypatch.setattr(solving, "solve", solve)
    with after(PASSES, small_program(seed, ("x", "y", "z")), THREE):
        assert sum(compared) > 5


def second_derivatives(weights: Any, x: Any) -> Any:
    """Their many reshapes cut and join dimensions in many ways."""

    def loss(weights: Any) -> Any:
        one, two, three = weights
        return jnp.mean((jnp.tanh(jnp.tanh(x @ one) @ two) @ three) ** 2)

    return jax.hessian(loss)(weights)


@pytest.mark.long
def test_blocks_behind_which_an_axis_may_stand_are_not_searched_by_the_thousand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[int] = []
    shortest = Prices._shortest

    def counted(self: Prices, cls: int, sources: Any) -> Any:
        found = shortest(self, cls, sources)
        searched.append(found.size)
        return found

    monkeypatch.setattr(Prices, "_shortest", counted)
    mesh = dtensor.Mesh.abstract([("data", 2), ("model", 4)])
    array: Any = jax.ShapeDtypeStruct
    weights = [array(shape, jnp.float32) for shape in ((8, 16), (16, 16), (16, 8))]
    columns = [dtensor.Layout([None, "model"], mesh)] * 3
    layouts = (columns, dtensor.Layout(["data", None], mesh))
    planned = dtensor.jit(second_derivatives, in_layouts=layouts).lower(
        weights, array((64, 8), jnp.float32)
    )
    assert planned.wire_bytes < 300_000
    assert sum(searched) < 5_000_000
    assert "cheaper" not in planned.explain()


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_parts_laid_out_one_by_one_make_no_dearer_plan_than_the_axis(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, eight = small_program(seed, ("x",)), Mesh([("x", 8)])
    whole = planned_seconds(text, eight)
    solve = solving.solve

    def one_by_one(problem: Problem, limits: Limits) -> bool:
        assert [len(axis) for axis in problem.maker.mesh_axes] in ([], [3])
        return solve(problem, replace(limits, most=0, specs=0))

    monkeypatch.setattr(solving, "solve", one_by_one)
    monkeypatch.setattr(propagate, "in_turn", lambda task, _, done: in_turn(task, CUT, done))
    assert planned_seconds(text, eight) <= whole * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_among_millions_of_choices_two_axes_are_laid_out_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = small_program(seed, ("x", "y"))
    together = planned_seconds(text, TWO)
    solve, apart = solving.solve, []

    def among_many(problem: Problem, limits: Limits) -> bool:
        before = problem.total()
        is_least = solve(problem, replace(limits, most=0))
        apart.append(problem.maker.has_left_out)
        assert problem.total() <= before
        return is_least

    monkeypatch.setattr(solving, "solve", among_many)
    assert planned_seconds(text, TWO) >= together * (1 - 1e-9)
    assert apart


@pytest.mark.long
def test_small_arrays_are_gathered_at_once_where_no_single_axis_gains() -> None:
    def loss(x: Any, y: Any) -> Any:
        found = (
            jnp.cov(x, y),
            x @ y.T @ x,
            jnp.average(x, axis=1, weights=jnp.abs(y[0])),
            jnp.ptp(x, 1),
            jnp.cumulative_sum(x, axis=1, include_initial=True),
            jnp.i0(x),
            jnp.sinc(x),
            jnp.correlate(x[0], y[0], "full"),
            jnp.clip(x, -0.3, y),
        )
        return sum([jnp.sum(jnp.sin(part)) for part in found])

    def seconds(axes: list[tuple[str, int]], *specs: Any) -> float:
        mesh = dtensor.Mesh.abstract(axes)
        layouts = tuple([dtensor.Layout(spec, mesh) for spec in specs])
        arrays = [jax.ShapeDtypeStruct((8, 16), jnp.float32)] * 2
        step = jax.value_and_grad(loss, (0, 1))
        planned = dtensor.jit(step, in_layouts=layouts).lower(*arrays)
        records = planned.ledger["records"]
        found: float = sum([r["seconds"] for r in records if r["kind"] == "plan"])
        return found

    three = seconds([("a", 2), ("b", 2), ("c", 2)], ["c", ("a", "b")], [("b", "c"), "a"])
    assert three < 1.1 * seconds([("x", 2), ("y", 4)], ["x", "y"], ["y", "x"])


def circuit(state: Any, angles: Any, ends_in_pairs: bool) -> Any:
    """A rotation of each qubit of a register, one after another, and gates of two neighbours."""
    count = len(angles)
    state = state.reshape((2,) * count)
    for qubit in range(count):
        c, s = jnp.cos(angles[qubit]), jnp.sin(angles[qubit])
        state = jnp.tensordot(jnp.array([[c, -s], [s, c]]), state, axes=[[1], [qubit]])
        state = jnp.moveaxis(state, 0, qubit)
    gate = jnp.reshape(jnp.sin(jnp.arange(16.0)), (2, 2, 2, 2))
    for qubit in range(0, count - 1, 2) if ends_in_pairs else ():
        state = jnp.tensordot(gate, state, axes=[[2, 3], [qubit, qubit + 1]])
        state = jnp.moveaxis(state, (0, 1), (qubit, qubit + 1))
    return state.reshape(-1)


@pytest.mark.sweep
@pytest.mark.parametrize(("ends_in_pairs", "moves"), [(False, 2), (True, 3)])
@pytest.mark.parametrize("qubits", [10, 16])
def test_the_parts_of_an_axis_move_at_once_among_many_dimensions(
    qubits: int, ends_in_pairs: bool, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All qubits that are split change places with others each time one of them is needed."""
    specs: list[int] = []
    search = Prices.search

    def counted(self: Prices, cls: int, given: Any) -> Any:
        specs.append(len(self.specs.rank(qubits)))
        return search(self, cls, given)

    monkeypatch.setattr(Prices, "search", counted)
    mesh = dtensor.Mesh.abstract([("x", 8)])
    layouts = dtensor.Layout(["x"], mesh), dtensor.Layout([None], mesh)
    array: Any = jax.ShapeDtypeStruct
    state, angles = array((2**qubits,), jnp.float32), array((qubits,), jnp.float32)
    planned = dtensor.jit(partial(circuit, ends_in_pairs=ends_in_pairs), in_layouts=layouts)
    shard = 4 * 2**qubits / 8
    assert planned.lower(state, angles).wire_bytes <= moves * shard * 7 / 8
    assert max(specs) < 1200  # of 1331 and 4913


def grouped_block(p: Any, x: Any) -> Any:
    """A transformer's block: query heads in groups, each with one head of key and value."""
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, p[name]) for name in "qkv")
    grouped = q.reshape(*q.shape[:2], k.shape[2], -1, q.shape[3])
    weights = jax.nn.softmax(jnp.einsum("btghk,bsgk->bghts", grouped, k))
    mixed = jnp.einsum("bghts,bsgk->btghk", weights, v).reshape(q.shape)
    x = x + jnp.einsum("bthk,hkd->btd", mixed, p["o"])
    return x + (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def momentum_step(model: Any, p: Any, layouts: Any, x: Any, rows: dtensor.Layout) -> Any:
    """A step of training a model, lowered: parameters and their momentum are laid out alike."""

    def step(p: Any, state: Any, x: Any, y: Any) -> Any:
        gradients = jax.grad(lambda p: jnp.mean((model(p, x) - y) ** 2))(p)
        state = jax.tree.map(lambda s, g: 0.9 * s + g, state, gradients)
        return jax.tree.map(lambda p, s: p - 0.1 * s, p, state), state

    both = (layouts, layouts)
    jitted = dtensor.jit(step, in_layouts=(*both, rows, rows), out_layouts=both)
    return jitted.lower(p, p, x, x)


def test_an_axis_that_is_cut_beside_another_is_laid_out_whole_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The four groups cut "model"; weights name it with "data", split as few would split them."""
    monkeypatch.setitem(EFFORTS, "normal", replace(EFFORTS["normal"], small=0))
    mesh = Mesh.abstract([("data", 2), ("model", 4)])
    wide = {name: ((64, 256), ["model", "data"]) for name in ("gate", "up")}
    heads = {n: ((64, h, 8), [None, "data", "model"]) for n, h in (("q", 8), ("k", 4), ("v", 4))}
    out = {"o": ((8, 8, 64), [("data", "model"), None, None])}
    weights = wide | heads | out | {"down": ((256, 64), ["data", "model"])}
    p = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, (shape, _) in weights.items()}
    layouts = {name: dtensor.Layout(dims, mesh) for name, (_, dims) in weights.items()}
    x, rows = jax.ShapeDtypeStruct((16, 32, 64), jnp.float32), ["data", None, None]

    def model(p: Any, x: Any) -> Any:
        return grouped_block(p, grouped_block(p, x))

    lowered = momentum_step(model, p, layouts, x, dtensor.Layout(rows, mesh))
    assert lowered.wire_bytes < 400_000  # one part after the other leads to 413_696


def fully_sharded_seconds(mesh: Mesh, data: tuple[str, ...]) -> float:
    """Seconds of a step of 2 layers in a scan, with weights over `data` and "model"."""
    wide, model, head, heads, groups = 14336, 4096, 128, 32, 8
    specs: dict[str, tuple[tuple[int, ...], list[Any]]] = {
        "q": ((model, heads, head), [data, "model", None]),
        "k": ((model, groups, head), [data, "model", None]),
        "v": ((model, groups, head), [data, "model", None]),
        "o": ((heads, head, model), ["model", None, data]),
        "gate": ((model, wide), [data, "model"]),
        "up": ((model, wide), [data, "model"]),
        "down": ((wide, model), ["model", data]),
    }
    p = {name: jax.ShapeDtypeStruct((2, *s), jnp.bfloat16) for name, (s, _) in specs.items()}
    layouts = {name: dtensor.Layout([None, *dims], mesh) for name, (_, dims) in specs.items()}
    x, rows = jax.ShapeDtypeStruct((256, 4096, model), jnp.bfloat16), [data, None, None]

    def layers(p: Any, x: Any) -> Any:
        block = jax.checkpoint(lambda h, layer: (grouped_block(layer, h), None))
        return jax.lax.scan(block, x, p)[0]

    lowered = momentum_step(layers, p, layouts, x, dtensor.Layout(rows, mesh))
    (plan,) = lowered._result.ledger.of_kind("plan")
    return float(plan.seconds)


def test_axes_named_together_do_not_keep_each_other_back() -> None:
    one = fully_sharded_seconds(Mesh.abstract([("xy", 64), ("model", 4)]), ("xy",))
    mesh = Mesh.abstract([("x", 8), ("y", 8), ("model", 4)])
    assert fully_sharded_seconds(mesh, ("x", "y")) <= one * (1 + 1e-6)
