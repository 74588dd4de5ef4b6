"""What jax.jit's other parameters and stages are called, and Python scalars, against jax.jit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor import Layout, LayoutError, copy_to_mesh, jit

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
ROWS, COLUMNS = Layout(["x", None], MESH), Layout([None, "y"], MESH)
X = np.arange(24, dtype=np.float32).reshape(6, 4)
W = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)


def affine(x: Any, w: Any, *, scale: Any = 1.0, bias: Any = None) -> Any:
    y = x @ w * scale
    return y if bias is None else y + bias


def same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.to_jax(), expected, rtol=1e-5)  # order of sums


@pytest.mark.sweep
@pytest.mark.parametrize(
    "in_layouts", [{"x": P("x"), "w": COLUMNS}, (ROWS, P(None, "y")), {"bias": P("y"), "x": ROWS}]
)
@pytest.mark.parametrize("by_name", [(), ("w",), ("x", "w")])
def test_layouts_belong_to_names(in_layouts: Any, by_name: tuple[str, ...]) -> None:
    arrays = {"x": X, "w": W}
    args = [array for name, array in arrays.items() if name not in by_name]
    named = {name: arrays[name] for name in by_name}
    bias = np.ones(8, np.float32)
    program = jit(affine, in_layouts=in_layouts, mesh=MESH)
    found = program(*args, **named, bias=bias)
    assert found.layout == Layout(["x", "y"], MESH)
    same(found, jax.jit(affine)(X, W, bias=bias))
    asked = program.lower(*args, **named, bias=bias).compile().in_layouts
    assert (asked[1]["x"] if "x" in by_name else asked[0][0]) == ROWS


@pytest.mark.parametrize(
    ("in_layouts", "expected"),
    [
        ({"first": ROWS}, [ROWS, None, None]),
        ({"rest": COLUMNS}, [None, COLUMNS, COLUMNS]),
        ({"first": ROWS, "rest": (COLUMNS, ROWS)}, [ROWS, COLUMNS, ROWS]),
    ],
)
def test_layouts_of_further_arguments_by_name(in_layouts: Any, expected: list[Any]) -> None:
    def total(first: Any, *rest: Any, scale: float = 2.0) -> Any:
        return first + sum(rest) * scale

    program = jit(total, in_layouts=in_layouts, mesh=MESH)
    same(program(X, X, X + 1, scale=3.0), X + (X + X + 1) * 3)
    found = program.lower(X, X, X, scale=3.0).compile().in_layouts[0]
    for layout, asked in zip(found, expected, strict=True):
        assert asked is None or layout == asked
    with pytest.raises(
        LayoutError, match="argument of the call; the arguments are first, rest, scale"
    ):
        jit(total, in_layouts={"others": ROWS}, mesh=MESH)(X, scale=3.0)


def test_a_name_that_is_none_is_refused() -> None:
    program = jit(affine, in_layouts={"v": ROWS}, mesh=MESH)
    with pytest.raises(LayoutError, match="in_layouts names 'v', which is no argument of the call"):
        program(X, W)
    with pytest.raises(LayoutError, match="a dict by their names, or one layout for all of them"):
        jit(affine, in_layouts="x")


def test_a_layout_inside_of_a_traced_function_belongs_to_its_name() -> None:
    inner = jit(affine, in_layouts={"w": COLUMNS, "x": ROWS})
    found = jit(lambda x, w: inner(x, w=w), mesh=MESH)(X, W)
    assert found.layout == Layout(["x", "y"], MESH)


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ({"donate_argnames": "x"}, ["x"]),
        ({"donate_argnums": 1}, ["w"]),
        ({"donate_argnames": ("x", "w")}, ["x", "w"]),
        ({"donate_argnums": (0,), "donate_argnames": "bias"}, ["x", "bias"]),
        ({"donate_argnums": -4 + 1}, ["w"]),
    ],
)
@pytest.mark.parametrize("by_name", [False, True])
def test_donation_by_position_and_by_name(options: Any, gone: list[str], by_name: bool) -> None:
    def update(x: Any, w: Any, bias: Any, rest: Any) -> Any:
        return x + 1, w * 2, bias - 1

    layout = Layout(["x"], MESH)
    values = {name: copy_to_mesh(np.arange(4.0) + 1, layout) for name in ("x", "w", "bias")}
    step = jit(update, static_argnames="rest", **options)
    args = () if by_name else tuple(values.values())
    results = step(*args, **(values if by_name else {}), rest=3)
    deleted = [name for name, value in values.items() if value.to_jax().is_deleted()]
    assert deleted == gone
    np.testing.assert_array_equal(results[0].to_jax(), np.arange(4) + 2)


def test_what_cannot_be_donated_is_refused() -> None:
    with pytest.raises(ValueError, match="donate_argnames: the function has no argument 'z'"):
        jit(affine, donate_argnames="z")
    with pytest.raises(ValueError, match="donate_argnums: the function has no argument 2"):
        jit(affine, donate_argnums=2)
    step = jit(lambda x, w: w * x, donate_argnums=0, static_argnums=0, mesh=MESH)
    with pytest.raises(ValueError, match="donate_argnums: argument 0 is static"):
        step(2.0, W)


def test_unused_arguments_are_kept_and_options_reach_xla() -> None:
    options = {"xla_embed_ir_in_executable": True}
    program = jit(lambda x, y: x + 1, keep_unused=True, compiler_options=options, mesh=MESH)
    same(program(X, W), X + 1)
    assert len(program.lower(X, W).args) == 2
    wrong = jit(lambda x: x, compiler_options={"xla_no_such_option": 1}, mesh=MESH)
    with pytest.raises(Exception, match="No such compile option: 'xla_no_such_option'"):
        wrong(X)


def test_the_stages_are_those_of_jax() -> None:
    program = jit(affine, in_layouts=(ROWS, None))
    traced = program.trace(X, w=W)
    expected = jax.jit(affine).trace(X, w=W)
    assert str(traced.jaxpr) == str(expected.jaxpr)
    assert (traced.out_info.shape, traced.out_info.dtype) == ((6, 8), np.float32)
    assert isinstance(traced, dtensor.Traced)
    assert repr(traced) == "Traced(affine on mesh(x=2, y=4))"
    same(traced.lower().compile()(X, w=W), jax.jit(affine)(X, W))
    shape = jit(affine).eval_shape(copy_to_mesh(X, ROWS), w=jax.ShapeDtypeStruct((4, 8), np.int8))
    assert shape == jax.ShapeDtypeStruct((6, 8), np.float32)
    with pytest.raises(TypeError, match="argument w of type str is not an array"):
        jit(affine).eval_shape(X, w="w")
    static = jit(jnp.sum, static_argnames="axis").eval_shape(X, axis=0)
    assert static.shape == (4,)
    key = jit(jax.random.split, mesh=MESH).trace(jax.random.key(0)).out_info
    assert (key.shape, key.dtype) == ((2,), jax.random.key(0).dtype)


@pytest.mark.parametrize("wide", [np.int64, np.float64, np.complex128, np.uint64])
def test_the_shape_of_an_array_of_64_bits_is_that_of_what_jax_makes_of_it(wide: Any) -> None:
    numbers = np.arange(8).astype(wide)
    program = jit(lambda x: x + x, in_layouts=Layout(["x"], MESH))
    shape = jax.ShapeDtypeStruct(numbers.shape, numbers.dtype)
    expected = jax.jit(lambda x: x + x)(numbers)
    same(program.lower(shape).compile()(numbers), expected)
    assert program.eval_shape(shape) == jax.ShapeDtypeStruct(expected.shape, expected.dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.float16, np.int8, jnp.bfloat16])
@pytest.mark.parametrize("number", [2, 2.5, True, 1 + 2j, np.float32(3), np.int8(3), np.array(2.0)])
def test_scalars_beside_arrays(dtype: Any, number: Any) -> None:
    def scaled(x: Any, s: Any) -> Any:
        return x * s, s + 1

    x = np.arange(1, 5).astype(dtype)
    expected = jax.jit(scaled)(x, number)
    found = jit(scaled, in_layouts=(P("y"), P()), mesh=MESH)(x, number)
    for one, other in zip(found, expected, strict=True):
        same(one, other)
    program = jit(scaled, mesh=MESH)
    again = program(x, program(x, number)[1])  # a number that comes back is still one
    for one, other in zip(again, jax.jit(scaled)(x, expected[1]), strict=True):
        same(one, other)


def test_scalars_in_loops_and_as_results() -> None:
    def loop(x: Any, n: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda i, c: c * 2 + i, x), n, 3, 2.5, True, None

    found = jit(loop, in_layouts=(ROWS, None))(X, 3)
    for one, other in zip(found, jax.jit(loop)(X, 3), strict=True):
        if other is None:
            assert one is None
        else:
            same(one, other)
    gradient = jax.grad(lambda s: jit(affine, mesh=MESH)(X, W, scale=s).sum())(2.0)
    np.testing.assert_allclose(gradient, np.sum(X @ W), rtol=1e-5)
    with pytest.raises(OverflowError):
        jit(loop, mesh=MESH)(X, 2**40)


def test_without_a_function_it_is_a_decorator() -> None:
    @jit(in_layouts=(P("x"), None), mesh=MESH, static_argnames=("twice",))
    def apply(x: Any, w: Any, twice: bool = False) -> Any:
        """What it does."""
        return x @ w * (2 if twice else 1)

    assert repr(apply).endswith("apply)")
    assert apply.__doc__ == "What it does."
    assert apply(X, W).layout == Layout(["x", None], MESH)
    same(apply(X, W, twice=True), jax.jit(lambda x, w: x @ w * 2)(X, W))

    @jit()
    def double(x: Any) -> Any:
        return x * 2

    assert double(copy_to_mesh(X, ROWS)).layout == ROWS


def test_shardings_and_caches_have_the_names_that_jax_has_for_them() -> None:
    compiled = jit(affine, in_layouts=(P("x"), P(None, "y")), mesh=MESH).lower(X, W).compile()
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    shardings = tuple(jax.NamedSharding(mesh, spec) for spec in (P("x"), P(None, "y")))
    for found, expected in zip(compiled.input_shardings[0], shardings, strict=True):
        assert found.is_equivalent_to(expected, 2)
    assert compiled.output_shardings.is_equivalent_to(jax.NamedSharding(mesh, P("x", "y")), 2)

    traced: list[tuple[int, ...]] = []

    def double(x: Any) -> Any:
        traced.append(x.shape)
        return x * 2

    program = jit(double, in_layouts=P("x"), mesh=MESH)
    for _ in range(2):
        program(X)
    program.clear_cache()
    program(X)
    assert traced == [X.shape] * 2


def test_none_names_no_argument_as_in_jax() -> None:
    none: Any = {
        f"{what}_{kind}": None for what in ("static", "donate") for kind in ("argnums", "argnames")
    }
    x = copy_to_mesh(X, ROWS)
    np.testing.assert_array_equal(jit(lambda a, n: a * n, **none)(x, 2).to_jax(), X * 2)
    assert not x.is_deleted()
