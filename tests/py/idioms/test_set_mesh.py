"""Functions under `jax.set_mesh`, with axes of type Auto and Explicit, against jax.jit."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor import DTensor, Layout, LayoutError, jit, random

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
X = np.arange(96, dtype=np.float32).reshape(8, 12) / 50
W = np.linspace(0.1, 1, 192, dtype=np.float32).reshape(12, 16)


def jax_mesh(kind: AxisType) -> jax.sharding.Mesh:
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind, kind))


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
def mesh(request: pytest.FixtureRequest) -> Iterator[jax.sharding.Mesh]:
    found = jax_mesh(request.param)
    with jax.set_mesh(found):
        yield found


def test_what_is_not_split_over_an_explicit_axis_stays_so_beside_auto_axes() -> None:
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("x", "y")))
        for spec, layout in ((P(None, None), [None, None]), (P("x", None), ["x", None])):

            def turned(x: Any, w: Any, spec: P = spec) -> Any:
                return jnp.tanh(jax.sharding.reshard(x, spec) @ w)

            compiled = jit(turned).lower(x, W).compile()
            assert compiled.out_layouts == Layout(layout, MESH)
            assert "warning" not in str(compiled)
            same(compiled(x, W), jax.jit(turned)(x, W))


def test_reducers_and_comparators_of_jax_beside_auto_axes() -> None:
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))

    def orders(x: Any) -> Any:
        odd = jax.lax.reduce(x, np.float32(0), lambda a, b: jnp.sqrt(a * a + b * b), (1,))
        sums = jax.lax.cumlogsumexp(x, 1)
        return jnp.sort(-x, 1), jnp.argmax(x, 1), odd, sums, x.at[:, 0].multiply(3)

    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("x")))
        for found, expected in zip(jit(orders)(x), jax.jit(orders)(x), strict=True):
            same(found, expected)


def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def same(found: DTensor, expected: Any) -> None:
    np.testing.assert_allclose(found.to_jax(), expected, rtol=1e-5)  # order of sums


def test_the_mesh_of_the_context_is_the_default(mesh: jax.sharding.Mesh) -> None:
    found = jit(layer)(X, W)
    assert found.mesh == MESH
    same(found, jax.jit(layer)(X, W))
    found = jit(layer, in_layouts=(P("x"), P(None, "y")))(X, W)
    assert found.layout == Layout(["x", "y"], MESH)
    same(found, jax.jit(layer)(X, W))
    assert dtensor.get_default_mesh() == MESH
    placed = dtensor.copy_to_mesh(X, P("y"))
    assert placed.layout == Layout(["y", None], MESH)
    same(placed + 1, X + 1)
    assert random.stateless_random_normal((4, 2), (1, 2)).mesh == MESH
    inner = dtensor.create_mesh([("z", 8)])
    with dtensor.default_mesh(inner):
        assert dtensor.get_default_mesh() == inner


def test_arrays_keep_their_layout(mesh: jax.sharding.Mesh) -> None:
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    w = jax.device_put(W, NamedSharding(mesh, P(None, "y")))
    found = jit(layer)(x, w)
    assert found.layout == Layout(["x", "y"], MESH)
    same(found, jax.jit(layer)(x, w))


def constrained(x: Any, w: Any) -> Any:
    y = jax.lax.with_sharding_constraint(x @ w, P(None, "y"))
    return jnp.sin(y)


def test_bare_specs_name_axes_of_the_context() -> None:
    with jax.set_mesh(jax_mesh(AxisType.Auto)):
        x = dtensor.copy_to_mesh(X, P("x"))
        found = jit(constrained)(x, W)
        assert found.layout == Layout([None, "y"], MESH)
        same(found, jax.jit(constrained)(X, W))
        relaid = jit(lambda x, w: dtensor.relayout(x @ w, P(None, "y")))(x, W)
        assert relaid.layout == Layout([None, "y"], MESH)


def resharded(x: Any, w: Any) -> Any:
    y = jax.sharding.reshard(x @ w, P(None, "y"))
    return jnp.sin(y) * y


def asked(x: Any, w: Any) -> Any:
    y = jnp.einsum("bi,io->bo", x, w, out_sharding=P("x", None))
    assert jax.typeof(y).sharding.spec == P("x", None)
    return jnp.exp(y)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [(resharded, [None, "y"]), (asked, ["x", None])],
    ids=["reshard", "out_sharding"],
)
def test_explicit_shardings_are_honoured(fn: Callable[..., Any], expected: Any) -> None:
    with jax.set_mesh(jax_mesh(AxisType.Explicit)):
        x, w = jax.device_put(X, P("x")), jax.device_put(W, P(None, "y"))
        program = jit(fn) if fn is resharded else jit(fn, in_layouts=(P("x"), P("y", None)))
        if fn is asked:
            w = jax.device_put(W, P("y", None))
        found = program(x, w)
        assert found.layout == Layout(expected, MESH)
        same(found, jax.jit(fn)(x, w))


def test_what_types_refuse_is_refused_as_by_jax() -> None:
    with jax.set_mesh(jax_mesh(AxisType.Explicit)):
        x, w = jax.device_put(X, P(None, "x")), jax.device_put(W, P("x", None))
        for compiled in (jit(layer), jax.jit(layer)):
            with pytest.raises(Exception, match="Contracting dimensions are sharded"):
                compiled(x, w)


def test_programs_belong_to_the_context_and_compile_once() -> None:
    traced: list[Any] = []

    def named(x: Any) -> Any:
        traced.append(jax.sharding.get_abstract_mesh().axis_names)
        return x + 1

    program = jit(named, in_layouts=Layout(["x", None], MESH))
    events: list[str] = []

    def listen(event: str, duration_secs: float, **rest: str | int) -> None:
        if "backend_compile" in event:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for _ in range(2):
            same(program(X), X + 1)
            for kind in (AxisType.Auto, AxisType.Explicit):
                with jax.set_mesh(jax_mesh(kind)):
                    same(program(X), X + 1)
        assert traced == [(), ("x", "y"), ("x", "y")]
        compiled = program.lower(X).compile()
        before = len(events)
        with jax.set_mesh(jax_mesh(AxisType.Explicit)):
            same(compiled(X), X + 1)
        assert len(events) == before
    finally:
        jax.monitoring.clear_event_listeners()
    other = jax.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))
    free = jit(lambda x: x * 2)
    with jax.set_mesh(other):
        assert free(X).mesh.axis_names == ("z",)
    with jax.set_mesh(jax_mesh(AxisType.Auto)):
        assert free(X).mesh == MESH


def test_programs_of_other_devices_run_in_the_context(mesh: jax.sharding.Mesh) -> None:
    four = dtensor.create_mesh([("a", 4)], devices=range(2, 6))
    x = dtensor.copy_to_mesh(X, Layout(["a", None], four))
    found = jit(layer)(x, W)
    assert found.mesh == four
    same(found, jax.jit(layer)(X, W))
    same(dtensor.relayout(x @ x.T, Layout([None, "a"], four)), X @ X.T)
    again = jit(layer).lower(x, W).compile()
    same(again(x, W), jax.jit(layer)(X, W))


def test_programs_of_another_mesh_make_arrays_on_their_own() -> None:
    x = dtensor.copy_to_mesh(X, Layout(["x", "y"], MESH))
    with jax.set_mesh(jax.make_mesh((8,), ("q",), axis_types=(AxisType.Explicit,))):
        same(x * 2 + 1, X * 2 + 1)
        same(x.at[3].set(4), jnp.asarray(X).at[3].set(4))
        same(jit(lambda x: x + jnp.ones((8, 12)))(x), X + 1)


def test_arrays_that_explicit_axes_do_not_divide(mesh: jax.sharding.Mesh) -> None:
    layout = Layout(["y", "x"], MESH)
    odd = dtensor.copy_to_mesh(X[:7, :5], layout)
    same(odd * 2, X[:7, :5] * 2)
    same(odd.sum(0), X[:7, :5].sum(0))
    same(jit(layer, in_layouts=(layout, None))(X[:7, :5], W[:5]), jax.jit(layer)(X[:7, :5], W[:5]))


def test_a_spec_without_a_mesh_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"names axes, but no mesh is known; give a mesh"):
        dtensor.copy_to_mesh(X, P("x"))
    with pytest.raises(dtensor.CompileError, match=r"no mesh for layer: .* dtensor.default_mesh"):
        jit(layer)(X, W)


def test_calls_of_a_context_look_at_their_arguments_too(mesh: jax.sharding.Mesh) -> None:
    rows = Layout(["x", None], MESH)
    step = jit(lambda x: x + 1, in_layouts=rows, out_layouts=rows, donate_argnums=0)
    given = dtensor.copy_to_mesh(X, rows)
    same(step(given), X + 1)
    with pytest.raises(RuntimeError, match="argument x is deleted: its buffers were donated"):
        step(given)
    add = jit(jnp.add, donate_argnums=0)
    twice = dtensor.copy_to_mesh(X, rows)
    with pytest.raises(ValueError, match=r"is donated, and argument .* is the same array"):
        add(twice, twice)


def test_arrays_without_elements_in_a_context(mesh: jax.sharding.Mesh) -> None:
    rows = Layout(["x", None], MESH)
    nothing = dtensor.copy_to_mesh(np.zeros((0, 12), np.float32), rows)
    none, some = jit(lambda e, x: (e * 2, x + e.sum()), out_layouts=rows)(nothing, X)
    assert none.shape == (0, 12)
    assert [shard.data.shape for shard in none.to_jax().addressable_shards] == [(0, 12)] * 8
    same(some, X)


@pytest.mark.parametrize("other", [AxisType.Auto, AxisType.Explicit])
def test_arrays_of_jax_come_out_with_the_types_of_the_context(other: AxisType) -> None:
    kinds = (AxisType.Explicit, other)
    with jax.set_mesh(jax.make_mesh((2, 4), ("x", "y"), axis_types=kinds)):
        program = jit(layer, in_layouts=(P("x"), P(None, "y")), returns="jax")
        for args in ((X, W), (jax.device_put(X, P("x")), W)):
            found = program(*args)
            assert found.sharding.mesh.axis_types == kinds
            assert found.sharding.spec == P("x", "y")
            assert jax.typeof(found).sharding.mesh.axis_types == kinds
            beside = jnp.sin(found) + jax.device_put(np.ones(16, np.float32), P())
            np.testing.assert_allclose(beside, np.sin(np.tanh(X @ W)) + 1, rtol=1e-5)
        keys = jit(lambda k: jax.random.split(k, 8), returns="jax")(jax.random.key(0))
        assert (
            jax.random.key_data(keys) == jax.random.key_data(jax.random.split(jax.random.key(0), 8))
        ).all()


KINDS = [(AxisType.Explicit,) * 2, (AxisType.Explicit, AxisType.Auto)]


@pytest.fixture(params=KINDS, ids=["explicit", "explicit and auto"])
def typed(request: pytest.FixtureRequest) -> jax.sharding.Mesh:
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=request.param)


def test_arrays_of_dtensors_have_the_types_of_the_context(typed: jax.sharding.Mesh) -> None:
    rows = Layout(["x", None], MESH)
    x = dtensor.copy_to_mesh(X, rows)
    plain = x.sharding
    with jax.set_mesh(typed):
        beside = jax.device_put(X, P("x"))
        assert x.to_jax().sharding == x.sharding == NamedSharding(typed, P("x", None))
        assert jax.typeof(x) == jax.typeof(x.to_jax())
        np.testing.assert_array_equal(x.to_jax() + beside, 2 * X)
        np.testing.assert_array_equal(jax.jit(jnp.add)(x, beside), 2 * X)
        np.testing.assert_array_equal(dtensor.from_jax(beside).to_jax() + beside, 2 * X)
        uneven = dtensor.copy_to_mesh(X[:7], rows).to_jax()
        np.testing.assert_array_equal(uneven + jnp.ones_like(uneven), X[:7] + 1)
        tree = {"w": x}
        doubled = jax.tree.map(jnp.add, tree, tree)["w"]
        assert doubled.layout == rows
        same(doubled, 2 * X)
        assert (doubled + x).layout == rows
        gradient = jax.grad(lambda w: jit(lambda w: (w**2).sum())(w))(x)
        assert gradient.layout == rows
        same(gradient, 2 * X)
        moved = dtensor.relayout(beside, Layout([None, "y"], MESH))
        np.testing.assert_array_equal(moved + jax.device_put(X, P(None, "y")), 2 * X)
        keys = dtensor.copy_to_mesh(jax.random.split(jax.random.key(0), 8), Layout(["x"], MESH))
        assert keys.to_jax().sharding == NamedSharding(typed, P("x"))
    assert x.sharding == x.to_jax().sharding == plain
    same(x, X)


def test_a_variable_is_not_updated_under_an_array_of_the_context(typed: jax.sharding.Mesh) -> None:
    total = dtensor.DVariable(dtensor.copy_to_mesh(X, Layout(["x", None], MESH)))
    with jax.set_mesh(typed):
        before = total.value().to_jax()
        total.assign_add(1.0)
        np.testing.assert_array_equal(before, X)
        np.testing.assert_array_equal(total.value().to_jax(), X + 1)


def test_jax_arrays_out_have_the_types_of_those_in(typed: jax.sharding.Mesh) -> None:
    a = jax.device_put(X, NamedSharding(typed, P("x")))
    program = jit(lambda x, w: {"y": x * w}, returns="jax")
    for run in (program, program.lower(a, 2.0).compile()):
        y = run(a, 2.0)["y"]
        assert y.sharding == NamedSharding(typed, P("x", None))
        np.testing.assert_array_equal(y + a, 3 * X)
    auto = jax.device_put(X, NamedSharding(jax_mesh(AxisType.Auto), P("x")))
    assert program(auto, 2.0)["y"].sharding == NamedSharding(jax_mesh(AxisType.Auto), P("x", None))
    assert program(a, 2.0)["y"].sharding == NamedSharding(typed, P("x", None))
    found = jit(lambda x: x * 2, in_layouts=P("x"), mesh=typed, returns="jax")(X)
    np.testing.assert_array_equal(found, 2 * X)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_arrays_that_are_written_another_way_are_taken_where_they_lie(
    kind: AxisType, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = jax_mesh(kind)
    place = {"x": NamedSharding(mesh, P("x")), "w": NamedSharding(mesh, P(None, "y"))}
    total = dtensor.DVariable(dtensor.copy_to_mesh(np.ones(16, np.float32), Layout([None], MESH)))

    def counted(x: Any, w: Any) -> Any:
        total.assign_add(layer(x, w).sum(0))
        return x

    def stepped(x: Any, w: Any) -> Any:
        return layer(x, w), w * 2

    specs = P("x"), P(None, "y")
    programs = [
        jit(stepped, in_layouts=specs, mesh=MESH, returns="jax"),
        jit(stepped, in_layouts=specs, mesh=MESH, returns="jax", donate_argnums=1),
        jit(counted, in_layouts=specs, mesh=MESH),
    ]

    def arrays() -> tuple[jax.Array, jax.Array]:
        return jax.device_put(X, place["x"]), jax.device_put(W, place["w"])

    for program in programs:
        program(*arrays())
    monkeypatch.delattr(jax, "make_array_from_single_device_arrays")
    given = [arrays() for _ in programs]
    monkeypatch.delattr(jax, "device_put")
    results = [program(*pair) for program, pair in zip(programs, given, strict=True)]
    for result, doubled in results[:2]:
        np.testing.assert_allclose(result, layer(X, W), rtol=1e-5)
        np.testing.assert_array_equal(doubled, 2 * W)
        assert result.sharding == NamedSharding(mesh, P("x", "y"))
    assert [w.is_deleted() for _, w in given] == [False, True, False]
    np.testing.assert_allclose(total.numpy(), 1 + 2 * layer(X, W).sum(0), rtol=1e-5)


def test_parts_of_a_sum_are_refused() -> None:
    mesh = jax_mesh(AxisType.Explicit)
    with jax.set_mesh(mesh):
        x, w = jax.device_put(X, P(None, "y")), jax.device_put(W, P("y"))
        parts = P(None, None, unreduced={"y"})
        y = jax.jit(lambda x, w: jnp.einsum("ij,jk->ik", x, w, out_sharding=parts))(x, w)
        whole = jax.sharding.reshard(y, P(None, None))
    double = jit(lambda y: y * 2, in_layouts=P(), mesh=mesh, returns="jax")
    with pytest.raises(LayoutError, match=r"argument y holds parts of a sum over y, its sharding"):
        double(y)
    np.testing.assert_allclose(double(whole), 2 * X @ W, rtol=1e-5)
