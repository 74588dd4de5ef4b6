"""Layouts that the planner finds: never dearer than those by hand, and within the memory given."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import mlir as jax_mlir
from jaxlib.mlir.dialects import sdy

import dtensor
from dtensor import AUTO, UNSHARDED, Layout
from dtensor.compiler.layout_rules import shortest_rules
from dtensor.compiler.options import CompileOptions
from dtensor.dialect.mlir import ir
from dtensor.passes.planning import strategies
from dtensor.runtime.client import create_mesh

MESHES = {"8": create_mesh([("data", 8)]), "2x4": create_mesh([("data", 2), ("model", 4)])}
BATCH = (64, 32)
LARGE = [pytest.mark.slow, pytest.mark.long]
BOTH = ["mlp", pytest.param("block", marks=LARGE)]


def array(*shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    return rng.normal(size=shape, scale=shape[0] ** -0.5).astype(np.float32)


# Two models as `(loss, parameters, hand layouts over an axis called model)`.


def mlp_loss(params: Any, x: Any, y: Any) -> Any:
    for layer in params:
        x = x + jnp.tanh(x @ layer["up"] + layer["bias"]) @ layer["down"]
    return ((x - y) ** 2).mean()


def block_loss(params: Any, x: Any, y: Any) -> Any:
    x = x.reshape(8, 8, 32)
    for layer in params:
        q, k, v = jnp.einsum("btd,dchk->cbthk", x * layer["gain"], layer["qkv"])
        weights = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k), -1)
        x = x + jnp.einsum("bhts,bshk,hkd->btd", weights, v, layer["out"])
        x = x + jax.nn.gelu(x * layer["gain"] @ layer["up"]) @ layer["down"]
    return ((x.reshape(64, 32) - y) ** 2).mean()


MLP = {"up": array(32, 128), "bias": array(128), "down": array(128, 32)}
MLP_SPECS = {"up": [None, "model"], "bias": ["model"], "down": ["model", None]}
BLOCK = {
    "gain": array(32),
    "qkv": array(32, 3, 4, 8),
    "out": array(4, 8, 32),
    "up": array(32, 128),
    "down": array(128, 32),
}
BLOCK_SPECS = {
    "gain": [None],
    "qkv": [None, None, "model", None],
    "out": ["model", None, None],
    "up": [None, "model"],
    "down": ["model", None],
}
MODELS: dict[str, tuple[Any, Any, Any]] = {
    "mlp": (mlp_loss, [MLP] * 2, [MLP_SPECS] * 2),
    "layer": (mlp_loss, [MLP], [MLP_SPECS]),
    "block": (block_loss, [BLOCK], [BLOCK_SPECS]),
}


OTHERS: dict[str, Any] = {  # which passes ahead of the choice of layouts rewrite, or that cut axes
    "sums": lambda x: jnp.cumsum(x, 0) @ x.T,
    "order": lambda x: jnp.sort(x, 0),
    "transform": lambda x: jnp.abs(jnp.fft.fft(x)),
    "roll": lambda x: jnp.roll(x, 1, 0) + x,
    "groups": lambda x: (x.reshape(8, 8, 32) @ x.T).reshape(4, 2, 8, 64).sum(1),
    "odd": lambda x: (x @ x[:31].T)[1:],
}


def step_of(model: str) -> Any:
    loss = MODELS[model][0]

    def step(params: Any, moments: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, gradients)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, moments), moments, value

    return step


def arguments(model: str) -> Any:
    params = MODELS[model][1]
    return params, jax.tree.map(np.zeros_like, params), array(*BATCH), array(*BATCH)


def rows(mesh: dtensor.Mesh) -> Layout:
    return Layout(["data", None], mesh)


def by_hand(model: str, mesh: dtensor.Mesh, split: bool) -> Any:
    """Parameters over `model` as Megatron has them, or whole; the batch over `data`."""

    def layout(spec: Any) -> Layout:
        names = [name if split and name in mesh.axis_names else None for name in spec]
        return Layout(names, mesh)

    return jax.tree.map(layout, MODELS[model][2], is_leaf=_is_spec)


def _is_spec(leaf: Any) -> bool:
    return isinstance(leaf, list) and not isinstance(leaf[0], dict)


@cache
def found(model: str, mesh: str, cap: float | None = None) -> dtensor.AutoLayouts:
    fixed = (None, None, rows(MESHES[mesh]), rows(MESHES[mesh]))
    return dtensor.auto_layouts(
        step_of(model),
        *arguments(model),
        mesh=MESHES[mesh],
        fixed=fixed,
        max_bytes_per_device=cap,
    )


def planned_seconds(model: str, layouts: Any, mesh: dtensor.Mesh) -> float:
    """The planned cost of a step whose state keeps its layouts."""
    jitted = dtensor.jit(
        step_of(model),
        in_layouts=(*layouts, rows(mesh), rows(mesh)),
        out_layouts=(*layouts, None),
        options=CompileOptions(effort="best"),
    )
    (plan,) = jitted.lower(*arguments(model))._result.ledger.of_kind("plan")
    return plan.seconds


def state_bytes(model: str) -> float:
    return float(sum(leaf.nbytes for leaf in jax.tree.leaves(arguments(model)[:2])))


def batch_bytes(mesh: dtensor.Mesh) -> float:
    return 2 * 4 * BATCH[0] * BATCH[1] / mesh.axis_size("data")


@pytest.mark.sweep
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("model", BOTH)
def test_never_dearer_than_by_hand(model: str, mesh: str) -> None:
    auto = found(model, mesh)
    assert auto.bound is not None
    assert 0.0 < auto.bound <= auto.cost
    for split in (False, True):
        layouts = by_hand(model, MESHES[mesh], split)
        hand = planned_seconds(model, (layouts, layouts), MESHES[mesh])
        assert auto.cost <= hand * (1 + 1e-9)


@pytest.mark.sweep
@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("model", BOTH)
def test_a_compilation_with_them_takes_what_they_cost(
    model: str, mesh: str, is_fixed: bool
) -> None:
    fixed = (None, None, rows(MESHES[mesh]), rows(MESHES[mesh]))
    compiled_with(step_of(model), arguments(model), mesh, fixed, is_fixed)


@pytest.mark.sweep
@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", OTHERS)
def test_so_it_does_where_operations_are_rewritten_first(
    name: str, mesh: str, is_fixed: bool
) -> None:
    compiled_with(OTHERS[name], (array(64, 32),), mesh, (rows(MESHES[mesh]),), is_fixed)


def test_large_operations_stay_divided() -> None:
    """A step that would take least where each device does all of it."""

    def step(params: Any, x: Any, y: Any) -> Any:
        gradients = jax.grad(mlp_loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    layer = {"up": array(64, 256), "bias": array(256), "down": array(256, 64)}
    batch = array(512, 64)
    fixed = (None, rows(MESHES["2x4"]), rows(MESHES["2x4"]))
    auto, compiled = compiled_with(step, ([layer], batch, batch), "2x4", fixed)
    one = dtensor.Mesh.abstract([("data", 1)])
    whole = dtensor.jit(step, mesh=one).lower([layer], batch, batch)
    assert compiled.local_flops < whole.local_flops / 2
    assert auto.bound is not None
    assert auto.bound <= auto.cost


def compiled_with(
    fn: Any, args: Any, mesh: str, fixed: Any, is_fixed: bool = True
) -> tuple[dtensor.AutoLayouts, Any]:
    """The layouts, and the program lowered with them, which takes exactly what they cost."""
    auto = dtensor.auto_layouts(fn, *args, mesh=MESHES[mesh], fixed=fixed if is_fixed else None)
    jitted = dtensor.jit(fn, in_layouts=auto.in_layouts, out_layouts=auto.out_layouts)
    lowered = jitted.lower(*args)
    (plan,) = lowered._result.ledger.of_kind("plan")
    assert plan.seconds == auto.cost
    return auto, lowered


# Each model and each mesh; the block on the mesh of two axes alone takes 10 s to plan under a cap.
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("model", "mesh"),
    [("mlp", "8"), ("mlp", "2x4"), pytest.param("block", "8", marks=LARGE)],
)
def test_under_a_cap_the_state_is_split_and_gathered(model: str, mesh: str) -> None:
    cap = state_bytes(model) / 6 + batch_bytes(MESHES[mesh])
    auto = found(model, mesh, cap)
    assert auto.bytes_per_device <= cap
    assert auto.cost >= found(model, mesh).cost * (1 - 1e-9)
    assert auto.bound is not None
    assert auto.bound <= auto.cost
    params = auto.in_layouts[0]
    held = [
        leaf.nbytes * np.prod(layout.local_shape(leaf.shape)) / max(leaf.size, 1)
        for leaf, layout in zip(
            jax.tree.leaves(arguments(model)), jax.tree.leaves(auto.in_layouts), strict=True
        )
    ]
    assert sum(held) == pytest.approx(auto.bytes_per_device)
    pairs = zip(jax.tree.leaves(params), jax.tree.leaves(auto.in_layouts[1]), strict=True)
    matrices = [pair for pair in pairs if pair[0].rank > 1]
    assert all(moment.axes for _, moment in matrices)  # every matrix is split, or its moment
    assert sum(bool(layout.axes) for layout, _ in matrices) >= len(matrices) - 1
    if mesh == "8":  # and gathered, or its gradient scattered, where the batch is split too
        jitted = dtensor.jit(
            step_of(model), in_layouts=auto.in_layouts, out_layouts=auto.out_layouts
        )
        kinds = {c.kind for c in jitted.lower(*arguments(model)).compile().collectives}
        assert {"all_gather", "reduce_scatter"} <= kinds


def test_a_cap_that_nothing_fits_is_an_error() -> None:
    with pytest.raises(dtensor.MemoryLimitError, match="one device holds at most 100 bytes of the"):
        found("mlp", "8", 100.0)


def test_arguments_that_cost_nothing_are_split_to_fit() -> None:
    x, mesh = array(64, 32), MESHES["8"]
    auto = dtensor.auto_layouts(lambda x: x, x, mesh=mesh, max_bytes_per_device=x.nbytes / 4)
    assert auto.bytes_per_device == x.nbytes / 8
    assert auto.cost == 0.0


def test_arguments_that_nothing_reads_have_layouts_of_their_own_shapes() -> None:
    mesh, x = MESHES["2x4"], array(16, 8)
    for other in (array(5), array(6, 16), array(3, 7)):
        args = (array(8, 4), other, x)
        step = dtensor.jit(lambda a, b, c: c * 2, in_layouts=AUTO, mesh=mesh)
        np.testing.assert_array_equal(step(*args).to_jax(), x * 2)
        auto = dtensor.auto_layouts(
            lambda a, b, c: c * 2, *args, mesh=mesh, max_bytes_per_device=550
        )
        assert auto.in_layouts[1].padded_shape(other.shape) == other.shape


@pytest.mark.sweep
@pytest.mark.parametrize("model", BOTH)
def test_values_are_those_of_one_device(model: str) -> None:
    args = arguments(model)
    step = dtensor.jit(step_of(model), in_layouts=AUTO, mesh=MESHES["2x4"])
    expected, got = jax.jit(step_of(model))(*args), step(*args)
    pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True)
    for want, have in pairs:
        # Sums of up to 128 products in another order, twice over.
        np.testing.assert_allclose(np.asarray(have), want, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_auto_for_a_part_leaves_the_rest_as_given_and_ties_results() -> None:
    mesh, args = MESHES["2x4"], arguments("mlp")
    step = dtensor.jit(step_of("mlp"), in_layouts=(AUTO, AUTO, rows(mesh), rows(mesh)))
    compiled = step.lower(*args).compile()
    (params, moments, x, y), _ = compiled.in_layouts
    assert (x, y) == (rows(mesh),) * 2
    assert (params, moments) == found("mlp", "2x4").in_layouts[:2]
    assert compiled.out_layouts[:2] == (params, moments)
    again = step(*step(*args)[:2], *args[2:])
    assert again[0][0]["up"].layout == params[0]["up"]


def test_auto_in_a_part_of_a_state_ties_all_of_it() -> None:
    def step(state: Any, x: Any) -> Any:
        return {"w": state["w"] * 0.9, "v": state["v"] + x.sum(0)}, x @ state["w"]

    mesh = MESHES["2x4"]
    columns = Layout([UNSHARDED, "model"], mesh)
    layouts = ({"w": columns, "v": AUTO}, rows(mesh))
    state = {"w": array(32, 64), "v": array(32)}
    compiled = dtensor.jit(step, in_layouts=layouts).lower(state, array(64, 32)).compile()
    assert compiled.out_layouts[0] == compiled.in_layouts[0][0]
    assert compiled.out_layouts[0]["w"] == columns


def test_options_that_only_a_compilation_keeps_to_are_refused() -> None:
    kept: dict[str, Any] = {"strict": True, "budget": dtensor.budget(0), "max_bytes_per_device": 9}
    for name, value in kept.items():
        options = dtensor.CompileOptions(**{name: value})
        with pytest.raises(dtensor.CompileError, match=f"does not keep to options.{name}"):
            dtensor.auto_layouts(jnp.sum, array(8), mesh=MESHES["8"], options=options)


def test_where_arrays_lie_means_nothing_to_auto() -> None:
    mesh = MESHES["2x4"]
    x = dtensor.copy_to_mesh(array(64, 32), Layout([UNSHARDED, "data"], mesh))
    w = array(32, 128)
    compiled = dtensor.jit(jnp.matmul, in_layouts=(AUTO, AUTO)).lower(x, w).compile()
    fresh = dtensor.jit(jnp.matmul, in_layouts=AUTO, mesh=mesh).lower(array(64, 32), w).compile()
    assert compiled.in_layouts == fresh.in_layouts


def test_what_is_carried_can_be_said() -> None:
    def both(state: Any, x: Any) -> Any:
        return x.sum(0), state + x.sum(0)

    mesh, x = MESHES["8"], array(64, 32)
    fixed = (None, rows(mesh))
    state = np.zeros(32, np.float32)
    tied = dtensor.auto_layouts(both, state, x, mesh=mesh, fixed=fixed, carry={0: 1})
    assert tied.out_layouts == (None, tied.in_layouts[0])
    default = dtensor.auto_layouts(both, state, x, mesh=mesh, fixed=fixed)
    assert default.out_layouts == (default.in_layouts[0], None)
    none = dtensor.auto_layouts(both, state, x, mesh=mesh, fixed=fixed, carry={})
    assert none.out_layouts == (None, None)
    as_list = dtensor.auto_layouts(
        lambda p, x: [w + x.sum(0) for w in p], [state, state], x, mesh=mesh, fixed=fixed
    )
    assert as_list.out_layouts == as_list.in_layouts[0]  # what is no tuple is one result
    wrong: list[tuple[Any, str]] = [
        ({1: 0}, "result 0 becomes argument 1, but their structure, shapes or element types"),
        ({0: 7}, "result 7 becomes argument 0; both has 2 arguments and 2 results"),
        ({0: 0, 1: 0}, "a result becomes one argument"),
        ({"state": 0}, "carry is {'state': 0}; give positions of arguments"),
        ([0, 1], r"carry is \[0, 1\]; give positions of arguments"),
    ]
    for carry, message in wrong:
        with pytest.raises(dtensor.CompileError, match=message):
            dtensor.auto_layouts(both, state, x, mesh=mesh, fixed=fixed, carry=carry)


@pytest.mark.parametrize("model", BOTH)
def test_rules_say_the_same(model: str) -> None:
    auto = found(model, "2x4")
    params = MODELS[model][1]
    rules = auto.as_rules(0)
    assert dtensor.layouts_by_name(params, rules, MESHES["2x4"]) == auto.in_layouts[0]
    different = {x for x in jax.tree.leaves(auto.in_layouts[0]) if x.axes}
    assert len(rules) == len(different)
    with pytest.raises(IndexError, match=r"argnum is -1, and \d arguments were given by position"):
        auto.as_rules(-1)


def test_what_is_no_function_and_no_array_is_named() -> None:
    with pytest.raises(TypeError, match="compiles a function, and got a value of type NoneType"):
        dtensor.auto_layouts(None, 1.0, mesh=MESHES["2x4"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="argument mode of type str is not an array"):
        dtensor.auto_layouts(lambda x, mode: x, 1.0, "mean", mesh=MESHES["2x4"])


def test_rules_are_endings_of_names_where_these_tell_layouts_apart() -> None:
    mesh = MESHES["2x4"]
    row, column, whole = (Layout(s, mesh) for s in (["data", None], [None, "data"], [None, None]))
    names = ["0/w", "1/w", "0/b", "head/w", "norm"]
    assert shortest_rules(names, [row, row, column, row, whole]) == [
        ("(^|/)w$", ["data", UNSHARDED]),
        ("(^|/)b$", [UNSHARDED, "data"]),
    ]
    rules = shortest_rules(names, [row, row, column, column, whole])
    assert rules == [
        (r"^\d+/w$", ["data", UNSHARDED]),
        ("(^|/)b$|^head/w$", [UNSHARDED, "data"]),
    ]
    ((pattern, _),) = shortest_rules(["0/w", "1/w"], [row, whole])
    assert pattern == "^0/w$"
    ((pattern, _),) = shortest_rules(["0/w", "0/v", "0/b"], [row, row, whole])
    assert pattern == "(^|/)(w|v)$"


def test_what_is_printed_says_why() -> None:
    text = str(found("mlp", "8"))
    first, *lines = text.split("\n")
    assert "ns planned per call on mesh(data=8)" in first
    assert any(line.startswith("  2x params[*]['up']: float32 32x128, [") for line in lines)
    assert all("s more" in line or line.endswith("; given") for line in lines)
    gap = found("mlp", "8").gap
    assert gap is not None
    assert gap < 0.01


@pytest.mark.long
def test_over_many_axes_they_cost_no_more() -> None:
    mesh = dtensor.Mesh.abstract([("data", 2), ("fsdp", 2), ("model", 2)])
    fixed = (None, None, rows(mesh), rows(mesh))
    many = dtensor.auto_layouts(step_of("layer"), *arguments("layer"), mesh=mesh, fixed=fixed)
    assert many.cost <= found("layer", "2x4").cost * 1.05
    assert many.bound is not None
    assert many.bound <= many.cost


def test_where_strategies_were_left_out_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "less" in str(found("mlp", "2x4")).split("\n")[0]
    monkeypatch.setattr(strategies, "_MOST_OF_NODE", 20)
    mesh = dtensor.Mesh.abstract([("data", 2), ("fsdp", 2), ("model", 2)])
    fixed = (None, None, rows(mesh), rows(mesh))
    many = dtensor.auto_layouts(step_of("mlp"), *arguments("mlp"), mesh=mesh, fixed=fixed)
    assert many.bound is many.gap is None
    assert "less" not in str(many).split("\n")[0]


def test_variables_have_layouts_of_their_own() -> None:
    variable = dtensor.DVariable(dtensor.copy_to_mesh(array(32), Layout(["data"], MESHES["8"])))
    with pytest.raises(dtensor.CompileError, match=r"uses variables .* layouts are their own"):
        dtensor.jit(lambda x: x + variable, in_layouts=AUTO, mesh=MESHES["8"]).lower(array(32))


def test_a_propagation_barrier_is_not_passed() -> None:
    barrier = Primitive("barrier")  # jax writes none itself; a primitive's lowering can
    barrier.def_abstract_eval(lambda x: x)

    def lower(ctx: Any, x: Any) -> Any:
        none = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
        return [sdy.PropagationBarrierOp(x, none).result]

    jax_mlir.register_lowering(barrier, lower)

    def apart(x: Any, w: Any) -> Any:
        return barrier.bind(x * 2) @ w

    mesh, x, w = MESHES["2x4"], array(64, 32), array(32, 128)
    expected = (
        r"test_auto_layouts\.py:\d+:\d+: apart has a propagation barrier here, and layouts "
        ".* would pass it; give the arguments layouts of their own in place of AUTO, or take the"
    )
    with pytest.raises(dtensor.CompileError, match=expected):
        dtensor.jit(apart, in_layouts=(rows(mesh), AUTO))(x, w)
    with pytest.raises(dtensor.CompileError, match=expected):
        dtensor.auto_layouts(apart, x, w, mesh=mesh)
    given = dtensor.jit(apart, in_layouts=(rows(mesh), None))
    x, w = np.round(x * 4), np.round(w * 4)  # small integers: exact in any order of the sums
    np.testing.assert_array_equal(given(x, w).to_jax(), x * 2 @ w)


def test_a_pipeline_that_decides_no_layouts_is_refused() -> None:
    text = "builtin.module(dtensor-import, dtensor-expand, dtensor-report-cost, dtensor-lower)"
    options = dtensor.CompileOptions(pipeline=text)
    with pytest.raises(dtensor.CompileError, match="the pipeline does not run dtensor-propagate"):
        dtensor.auto_layouts(lambda x: x + 1, array(8, 4), mesh=MESHES["8"], options=options)
