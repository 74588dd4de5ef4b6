"""`dtensor.jit`, called, lowered and compiled."""

import copy
import functools
import gc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from dtensor.compiler.api import jit
from dtensor.compiler.options import CompileOptions
from dtensor.compiler.program import CompiledProgram
from dtensor.compiler.relayout import copy_to_mesh, relayout
from dtensor.compiler.stages import Compiled, Lowered
from dtensor.dialect.errors import CompileError, LayoutError, StrictError
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.array import DTensor
from dtensor.runtime.client import create_mesh
from dtensor.runtime.placement import jax_mesh

MESH = create_mesh([("x", 2), ("y", 4)])
ROWS = Layout(["x", UNSHARDED], MESH)
COLUMNS = Layout([UNSHARDED, "y"], MESH)
WHOLE = Layout.replicated(MESH, 2)
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
W = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)


def layer(params: Any, x: Any) -> Any:
    h = jnp.tanh(x @ params["w"])
    return {"h": h, "loss": (h**2).mean()}


def values(x: Any) -> np.ndarray[Any, Any]:
    assert isinstance(x, DTensor)
    return np.asarray(x.to_jax())


def test_dtensors_in_and_out_with_the_result_of_one_device() -> None:
    params = {"w": copy_to_mesh(W, COLUMNS)}
    result = jit(layer)(params, copy_to_mesh(X, ROWS))
    expected = layer({"w": W}, X)
    # f32 sums over 2 or 4 shards: 1e-6 relative
    np.testing.assert_allclose(values(result["h"]), expected["h"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(values(result["loss"]), expected["loss"], rtol=1e-6)
    assert result["h"].mesh == MESH


def test_layouts_for_arguments_and_results() -> None:
    step = jit(layer, in_layouts=({"w": COLUMNS}, ROWS), out_layouts={"h": COLUMNS, "loss": None})
    result = step({"w": W}, X)
    assert result["h"].layout == COLUMNS
    compiled = step.lower({"w": W}, X).compile()
    assert compiled.in_layouts == (({"w": COLUMNS}, ROWS), {})
    assert compiled.out_layouts["h"] == COLUMNS
    assert compiled.mesh == MESH
    np.testing.assert_allclose(
        values(compiled({"w": W}, X)["h"]), layer({"w": W}, X)["h"], rtol=1e-5
    )


def test_one_layout_stands_for_a_subtree() -> None:
    tree = {"a": X, "b": {"c": X + 1}}
    result = jit(lambda t: jax.tree.map(jnp.sin, t), in_layouts=(ROWS,), out_layouts=WHOLE)(tree)
    assert result["b"]["c"].layout == WHOLE
    np.testing.assert_allclose(result["b"]["c"].numpy(), np.sin(X + 1), rtol=1e-6)


def test_host_arrays_jax_arrays_and_numbers_are_taken() -> None:
    f = jit(lambda a, b, c: a * b + c, mesh=MESH, out_layouts=WHOLE)
    sharded = jax.device_put(X, NamedSharding(jax_mesh(MESH), PartitionSpec("x")))
    for a in (X, X.astype(np.float64), jnp.asarray(X), sharded, copy_to_mesh(X, COLUMNS)):
        np.testing.assert_allclose(f(a, 2, 0.5).numpy(), X * 2 + 0.5, rtol=1e-6)


@pytest.mark.parametrize("layout", [WHOLE, ROWS])
def test_a_host_array_may_be_written_to_behind_the_call(layout: Layout) -> None:
    """On CPU jax takes memory that begins at a multiple of 64 bytes for the buffer itself."""

    def late(x: Any, w: Any) -> Any:
        w = jax.lax.fori_loop(0, 60, lambda i, v: jnp.tanh(v @ v) / 2, w)
        return x + 0 * w.sum()

    memory = np.zeros(64 * 64 + 16, np.float32)
    first = -memory.ctypes.data % 64 // memory.itemsize
    x = memory[first : first + 64 * 64].reshape(64, 64)
    step = jit(late, in_layouts=(layout, WHOLE), out_layouts=layout)
    w = copy_to_mesh(np.eye(300, dtype=np.float32), WHOLE)
    values(step(x, w))  # compiled
    found = step(x, w)
    x[:] = 1
    assert not values(found).any()


def test_arrays_of_explicit_meshes_are_taken() -> None:
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    a = jax.device_put(X, NamedSharding(mesh, PartitionSpec("x", "y")))
    b = jax.device_put(W, NamedSharding(mesh, PartitionSpec("x", None)))
    with pytest.raises(Exception, match=r"."):  # why layouts are kept beside the traced shapes
        jax.jit(jnp.matmul)(a, b)
    result = jit(jnp.matmul, out_layouts=WHOLE)(a, b)
    np.testing.assert_allclose(result.numpy(), X @ W, rtol=1e-5, atol=1e-6)


def test_results_have_the_axis_types_of_what_is_given() -> None:
    meshes = {
        kind: jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind,) * 2)
        for kind in (AxisType.Explicit, AxisType.Auto)
    }
    arrays = {
        kind: jax.device_put(X, NamedSharding(mesh, PartitionSpec("x", None)))
        for kind, mesh in meshes.items()
    }
    for traced in arrays.values():
        compiled = jit(jnp.tanh, returns="jax").lower(traced).compile()
        for kind, given in arrays.items():
            result = compiled(given)
            assert result.sharding.mesh.axis_types == (kind,) * 2
            np.testing.assert_allclose(np.asarray(result), np.tanh(X), rtol=1e-6)


def test_programs_are_kept_by_type_and_layout() -> None:
    traces = []

    def f(x: Any) -> Any:
        traces.append(x.shape)
        return x + 1

    g = jit(f)
    for layout in (ROWS, ROWS, COLUMNS, ROWS, COLUMNS):
        g(copy_to_mesh(X, layout))
    assert len(g._programs) == 2
    g(copy_to_mesh(X[:4], ROWS))
    assert len(g._programs) == 3
    assert traces == [(8, 8), (4, 8)]  # jax traces for shapes alone


def test_xla_compiles_once() -> None:
    compiles: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            compiles.append(event)

    f = jit(lambda a, b, c: (a + b) * c, mesh=MESH, out_layouts=ROWS)
    x = copy_to_mesh(X, ROWS)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for factor in (2.0, 3.0):
            f(x, X, factor)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(compiles) == 1


def test_static_arguments() -> None:
    def f(n: int, x: Any, *, mode: str = "times") -> Any:
        return x * n if mode == "times" else x + n

    g = jit(f, static_argnums=0, static_argnames="mode", out_layouts=WHOLE)
    x = copy_to_mesh(X, ROWS)
    np.testing.assert_array_equal(g(3, x).numpy(), X * 3)
    np.testing.assert_array_equal(g(2, x, mode="plus").numpy(), X + 2)
    np.testing.assert_array_equal(g(n=2, x=x, mode="plus").numpy(), X + 2)
    with pytest.raises(ValueError, match="static argument 0 of type list is not hashable"):
        g([1], x)
    with pytest.raises(ValueError, match="the function has no argument 'size'"):
        jit(f, static_argnames="size")


def test_equal_static_arguments_of_several_types_make_several_programs() -> None:
    def f(n: Any, x: Any, *, least: Any = 0) -> Any:
        return x + n if type(least) is int else x - n

    g = jit(f, static_argnums=0, static_argnames="least", mesh=MESH)
    whole = np.arange(6, dtype=np.int32)
    for n in (1, 1.0, True, 1):
        expected = jax.jit(f, static_argnums=0)(n, whole)
        assert g(n, whole).dtype == expected.dtype
        np.testing.assert_array_equal(g(n, whole, least=0).numpy(), expected)
        np.testing.assert_array_equal(g(n, whole, least=0.0).numpy(), whole - n)


def test_donated_arguments_are_gone() -> None:
    def f(n: int, state: Any, x: Any) -> Any:
        return jax.tree.map(lambda s: s + n * x, state)

    g = jit(f, static_argnums=0, donate_argnums=1, out_layouts=ROWS)
    state, x = {"s": copy_to_mesh(X, ROWS)}, copy_to_mesh(X, ROWS)
    result = g(1, state, x)
    assert state["s"].to_jax().is_deleted()
    assert not x.to_jax().is_deleted()
    np.testing.assert_array_equal(values(result["s"]), 2 * X)
    with pytest.raises(ValueError, match="donate_argnums: argument 0 is static"):
        jit(f, static_argnums=0, donate_argnums=0)(1, state, x)


def test_an_argument_in_another_layout_is_moved_and_recorded() -> None:
    compiled = jit(lambda a: a + 1, in_layouts=(ROWS,)).lower(X).compile()
    np.testing.assert_array_equal(values(compiled(copy_to_mesh(X, COLUMNS))), X + 1)
    (record,) = [r for r in compiled.ledger["records"] if r["kind"] == "moved argument"]
    assert 'argument a comes as [{}, {"y"}], the program takes [{"x"}, {}]' in record["text"]
    assert not record["asked_for"]
    compiled(copy_to_mesh(X, COLUMNS))  # recorded once
    assert len([r for r in compiled.ledger["records"] if r["kind"] == "moved argument"]) == 1


def test_an_argument_in_another_device_order_is_moved_and_recorded() -> None:
    other = create_mesh([("x", 2), ("y", 4)], devices=[3, 1, 0, 2, 7, 6, 5, 4])
    compiled = jit(lambda a: a + 1, in_layouts=(ROWS,)).lower(X).compile()
    moved = copy_to_mesh(X, Layout(["x", UNSHARDED], other))
    for argument in (moved, moved.to_jax(), jax.device_put(X, jax.devices()[5])):
        np.testing.assert_array_equal(values(compiled(argument)), X + 1)
    assert len([r for r in compiled.ledger["records"] if r["kind"] == "moved argument"]) == 3


def test_under_strict_a_move_is_an_error() -> None:
    f = jit(lambda a: a + 1, in_layouts=(ROWS,), options=CompileOptions(strict=True))
    f(copy_to_mesh(X, ROWS))
    f(X)
    with pytest.raises(StrictError, match=r"argument a comes as .* call it with dtensor.relayout"):
        f(copy_to_mesh(X, COLUMNS))


def test_inside_another_traced_function_it_is_inlined() -> None:
    inner = jit(lambda a: jnp.tanh(a), in_layouts=(ROWS,), out_layouts=COLUMNS)
    x = copy_to_mesh(X, ROWS)
    outer = jit(lambda a: inner(a).sum())
    np.testing.assert_allclose(values(outer(x)), np.tanh(X).sum(), atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda a: inner(a) * 2)(X), np.tanh(X) * 2, rtol=1e-6)
    np.testing.assert_allclose(
        jax.grad(lambda a: inner(a).sum())(X), 1 - np.tanh(X) ** 2, rtol=1e-5
    )
    assert "dtensor.relayout" in jax.jit(inner).lower(X).as_text()


def test_lower_takes_shapes_and_their_shardings() -> None:
    sharding = NamedSharding(jax_mesh(MESH), PartitionSpec("x"))
    shape = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=sharding)
    lowered = jit(lambda a: a + 1).lower(shape)
    assert "tensor<4x8xf32>" in lowered.as_text()
    assert "tensor<8x8xf32>" in lowered.as_text(after="dtensor-import")
    with pytest.raises(
        CompileError, match="no pass 'dtensor-improt' ran; did you mean 'dtensor-import'"
    ):
        lowered.as_text(after="dtensor-improt")
    compiled = lowered.compile()
    assert "HloModule" in compiled.as_text()
    assert compiled.memory_analysis().argument_size_in_bytes == 4 * 8 * 4
    assert compiled.cost_analysis()["flops"] >= 32
    assert compiled.in_layouts == ((ROWS,), {})


def test_a_compiled_program_checks_what_it_is_called_with() -> None:
    compiled = jit(lambda a, b: a + b, mesh=MESH).lower(X, b=X).compile()
    compiled(X, b=X)
    with pytest.raises(
        TypeError,
        match="the positional arguments: compiled for a tuple of 1, called with a tuple of 2",
    ):
        compiled(X, X)
    with pytest.raises(TypeError, match=r"argument b: compiled for float32\[8, 8\], called with"):
        compiled(X, b=X[:4])
    with pytest.raises(TypeError, match="cannot be traced"):
        jax.jit(lambda a: compiled(a, b=a))(X)
    x = copy_to_mesh(X, ROWS)
    compiled(x, b=x)  # known by now
    with pytest.raises(TypeError, match="call, or trace, the function"):
        checkify.checkify(compiled)(x, b=x)  # it would check nothing


def test_relayout_of_arrays() -> None:
    x = copy_to_mesh(X, ROWS)
    y = relayout(x, Layout(["y", "x"], MESH))
    assert y.layout == Layout(["y", "x"], MESH)
    np.testing.assert_array_equal(values(y), X)
    np.testing.assert_array_equal(relayout(y, WHOLE).numpy(), X)
    assert relayout(x, ROWS) is x
    other = create_mesh([("z", 4)], devices=[7, 5, 3, 1])
    np.testing.assert_array_equal(values(relayout(y, Layout(["z", UNSHARDED], other))), X)
    placed = relayout(jnp.asarray(X), COLUMNS)
    assert isinstance(placed, jax.Array)
    assert not placed.sharding.is_fully_replicated
    with pytest.raises(LayoutError, match="layout has 1 dimensions"):
        relayout(x, Layout(["x"], MESH))
    with pytest.raises(TypeError, match="in a traced function use relayout"):
        jax.jit(lambda a: copy_to_mesh(a, ROWS))(X)


def test_pure_callbacks_see_the_whole_arrays() -> None:
    shapes = []

    def double(a: Any) -> Any:
        shapes.append(a.shape)
        return np.asarray(a) * 2

    def f(x: Any) -> Any:
        return jax.pure_callback(double, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

    result = jit(f, out_layouts=ROWS)(copy_to_mesh(X, ROWS))
    np.testing.assert_array_equal(values(result), 2 * X + 1)
    assert set(shapes) == {(8, 8)}


def test_debug_callbacks_run_once_and_several_callbacks_keep_their_order() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        jax.debug.callback(lambda v: seen.append(float(v)), x.sum())
        y = jax.pure_callback(np.negative, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        jax.debug.callback(lambda v: seen.append(float(v)), y.sum() + 1)
        return y

    g = jit(f, out_layouts=WHOLE)
    x = copy_to_mesh(np.ones((8, 8), np.float32), ROWS)
    for _ in range(2):
        np.testing.assert_array_equal(g(x).block_until_ready().numpy(), -np.ones((8, 8)))
    assert sorted(seen) == [-63.0, -63.0, 64.0, 64.0]


def test_one_device_is_a_mesh_too() -> None:
    mesh = create_mesh([("x", 1)])
    result = jit(layer, mesh=mesh)({"w": W}, X)
    np.testing.assert_allclose(result["h"].numpy(), layer({"w": W}, X)["h"], rtol=1e-5, atol=1e-6)


def test_parts_of_two_memory_orders_are_exchanged() -> None:
    # XLA's CPU code gives the transposed half and the zeros one each, which its verifier refuses.
    x = np.random.default_rng(0).normal(size=(48, 48)).astype(np.float32)
    step = jit(
        lambda a: jnp.sort(jnp.pad(a.T, ((0, 0), (0, 48))), axis=0),
        in_layouts=(columns := Layout([UNSHARDED, "x"], create_mesh([("x", 2)]))),
        out_layouts=columns,
    )
    assert [c.kind for c in step.lower(x).compile().collectives] == ["all_to_all"]
    result = step(x)
    expected = np.sort(np.pad(x.T, ((0, 0), (0, 48))), axis=0)
    np.testing.assert_array_equal(result.to_jax(), expected)


def test_what_jit_refuses() -> None:
    with pytest.raises(
        CompileError, match="no mesh for layer: no argument and no layout names one"
    ):
        jit(layer)({"w": W}, X)
    with pytest.raises(LayoutError, match="in_layouts is of type str; give a tuple"):
        jit(layer, in_layouts="x")
    with pytest.raises(
        LayoutError,
        match=r"in_layouts\[0\] is a dict with 'v', but the arguments have a dict with 'w' there",
    ):
        jit(layer, in_layouts=({"v": ROWS}, ROWS))({"w": W}, X)
    blocks = Layout([(3, "x"), None], MESH)
    with pytest.raises(
        LayoutError, match=r"argument params\['w'\] cannot have the layout .*: dimens"
    ):
        jit(layer, in_layouts=(blocks, None))({"w": W[:5]}, X[:, :5])
    with pytest.raises(LayoutError, match=r"result cannot have the layout .*: partial over axes"):
        jit(lambda x: x, out_layouts=Layout([None, None], MESH, partial={"sum": "x"}))(X)
    with pytest.raises(
        TypeError, match=r"argument s of type str is not an array of numbers; name it in static"
    ):
        jit(lambda x, s: x, mesh=MESH)(X, "a")
    other = create_mesh([("z", 8)])
    with pytest.raises(LayoutError, match="a program runs on one mesh, but layouts name"):
        jit(layer, in_layouts=(ROWS, Layout(["z"], other)))
    with pytest.raises(LayoutError, match=r"a lies on mesh\(x=2, y=4\) and b on mesh\(z=8\)"):
        jit(lambda a, b: (a, b))(copy_to_mesh(X, ROWS), copy_to_mesh(X, Layout(["z", None], other)))


def test_the_wrapper_looks_like_the_function() -> None:
    assert vars(jit(layer, mesh=MESH))["__name__"] == "layer"
    partial = functools.partial(layer, {"w": W})
    assert jit(partial, mesh=MESH)(X)["h"].shape == (8, 16)


def test_the_stages_are_named() -> None:
    lowered = jit(lambda x: x + 1, in_layouts=ROWS).lower(X)
    assert isinstance(lowered, Lowered)
    assert isinstance(lowered.compile(), Compiled)


def test_a_method_gets_its_object() -> None:
    class Model:
        scale = 3.0

        @functools.partial(jit, static_argnums=0)
        def apply(self, x: Any) -> Any:
            return x * self.scale

    np.testing.assert_allclose(values(Model().apply(copy_to_mesh(X, ROWS))), X * 3, rtol=1e-6)


def test_what_jit_makes_says_what_it_is() -> None:
    function = jit(layer)
    assert repr(function) == "dtensor.jit(layer)"
    lowered = function.lower({"w": copy_to_mesh(W, COLUMNS)}, copy_to_mesh(X, ROWS))
    assert repr(lowered) == "Lowered(layer on mesh(x=2, y=4))"
    assert repr(lowered.compile()) == "Compiled(layer on mesh(x=2, y=4))"


def test_numpy_arrays_in_a_traced_function_are_arrays_of_jax() -> None:
    inner = jit(lambda a, b: a + b.at[0].set(1.0), in_layouts=Layout(["x", UNSHARDED], MESH))
    a, b = np.ones((8, 4), np.float32), np.full((8, 4), 2.0, np.float32)
    want = a + np.concatenate([np.ones((1, 4)), b[1:]])
    np.testing.assert_array_equal(jax.jit(lambda a: inner(a, b))(a), want)
    np.testing.assert_array_equal(jax.jit(lambda: inner(a, b))(), want)


def test_a_compiled_function_is_copied_as_functions_are() -> None:
    step = jit(lambda x: x * 2, in_layouts=ROWS)
    assert copy.deepcopy({"step": step})["step"] is step


def test_arrays_of_64_bits_are_refused_once_jax_has_such_types_no_more() -> None:
    with jax.enable_x64(True):
        x = copy_to_mesh(X.astype(np.float64), ROWS)
        assert jit(jnp.sin)(x).dtype == np.float64
    calls: list[Any] = [lambda: jit(jnp.sin)(x), lambda: relayout(x, COLUMNS)]
    for call in calls:
        with pytest.raises(TypeError, match=r"argument .* is float64, but jax's 64-bit types are"):
            call()


def test_a_program_goes_with_its_function() -> None:
    def programs() -> int:
        gc.collect()
        return sum(isinstance(each, CompiledProgram) for each in gc.get_objects())

    x = copy_to_mesh(X, ROWS)
    before = programs()
    for n in range(3):
        jit(lambda x, n=n: x * n)(x)
    assert programs() == before
