"""GSPMD's annotations mean what jax wrote them for."""

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor import Layout, Mesh
from dtensor.passes.importing.gspmd import gspmd_layout, shardings_of

MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (3, 2), (6,), (1, 4, 2)]


def named(sizes: tuple[int, ...]) -> tuple[Mesh, jax.sharding.Mesh]:
    axes = tuple("xyz"[: len(sizes)])
    devices = jax.devices()[: int(np.prod(sizes))]
    kinds = (AxisType.Auto,) * len(sizes)
    return Mesh(list(zip(axes, sizes, strict=True))), jax.make_mesh(
        sizes, axes, axis_types=kinds, devices=devices
    )


@pytest.mark.parametrize("sizes", MESHES)
def test_what_jax_writes_for_a_spec_is_the_layout_of_that_spec(sizes: tuple[int, ...]) -> None:
    mesh, of_jax = named(sizes)
    draw = random.Random(str(sizes))
    for _ in range(40):
        axes = draw.sample(mesh.axis_names, len(mesh.axis_names))
        spec: list[Any] = []
        for _ in range(draw.randint(1, 4)):
            count = draw.choice([0, 0, 1, 1, 2])
            spec.append(tuple(axes[:count]))
            axes = axes[count:]
        sharding: Any = NamedSharding(of_jax, P(*spec))
        text = str(sharding._to_xla_hlo_sharding(len(spec)))
        assert gspmd_layout(text, mesh, len(spec)) == Layout(spec, mesh), text


def test_parts_of_axes_and_prime_sizes() -> None:
    mesh = Mesh([("x", 12)])
    assert gspmd_layout("{devices=[3,4]<=[12]}", mesh, 2) == Layout.parse(
        '#dtensor.layout<@mesh, [{"x":(1)3}, {"x":(3)4}]>', mesh
    )
    assert gspmd_layout("{devices=[4,3]<=[3,4]T(1,0)}", mesh, 2) == Layout.parse(
        '#dtensor.layout<@mesh, [{"x":(3)4}, {"x":(1)3}]>', mesh
    )


def test_a_module_that_jax_lowered_for_gspmd() -> None:
    mesh, of_jax = named((2, 4))

    def split(*spec: Any) -> NamedSharding:
        return NamedSharding(of_jax, P(*spec))

    def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = jnp.tanh(x @ w)
        y = jax.lax.with_sharding_constraint(y, split("x", P.UNCONSTRAINED))
        return y, y.sum(0)

    rng = np.random.default_rng(0)
    x, w = (jnp.array(rng.integers(-4, 5, shape), jnp.float32) / 8 for shape in [(8, 16), (16, 12)])
    shardy = jax.config.values["jax_use_shardy_partitioner"]
    jax.config.update("jax_use_shardy_partitioner", False)
    try:
        given = jax.jit(
            layer,
            in_shardings=(split(("y", "x"), None), split(None, "y")),
            out_shardings=(split("y", None), None),
        )
        text = given.lower(x, w).as_text()
    finally:
        jax.config.update("jax_use_shardy_partitioner", shardy)
    assert "sdy" not in text
    assert "@Sharding" in text
    compiled = dtensor.compile_mlir(text, mesh=mesh)
    assert [arg.layout.short() for arg in compiled.program.args] == [
        '[{"y", "x"}, {}]',
        '[{}, {"y"}]',
    ]
    results = compiled(x, w)
    assert results[0].layout.short() == '[{"y"}, {}]'
    for got, expected in zip(results, layer(x, w), strict=True):
        np.testing.assert_allclose(got.to_jax(), expected, rtol=1e-6, atol=1e-6)  # of sums of 8


@pytest.mark.parametrize("sizes", [(12,), (4, 6), (8,), (2, 9)])
def test_any_list_of_devices_is_a_layout_or_refused(sizes: tuple[int, ...]) -> None:
    """Which tile a device holds follows from the layout as GSPMD says it."""
    mesh = Mesh([(name, size) for name, size in zip("xy", sizes, strict=False)])
    draw = random.Random(str(sizes))
    said = 0
    for _ in range(200):
        order = factors(mesh.size, draw)
        shape = factors(mesh.size, draw)
        turned = draw.sample(range(len(order)), len(order))
        text = f"{{devices={shape}<={order}T({str(turned)[1:-1]})}}".replace(" ", "")
        try:
            layout = gspmd_layout(text, mesh, len(shape))
        except dtensor.LayoutError as error:
            assert "in an order that no layout of" in str(error)  # noqa: PT017
            continue
        said += 1
        devices = np.arange(mesh.size).reshape(order).transpose(turned).reshape(shape)
        for tile in np.ndindex(*shape):
            for dim, axes in zip(tile, layout.dims, strict=True):
                place = 0
                for axis in axes.axes:
                    place = place * axis.size + mesh.coordinate(int(devices[tile]), axis)
                assert place == dim, text
    assert said > 40


def factors(size: int, draw: random.Random) -> list[int]:
    found = []
    while size > 1:
        found.append(draw.choice([k for k in range(2, size + 1) if size % k == 0]))
        size //= found[-1]
    return found


def test_the_results_of_an_operation() -> None:
    tiled = "{devices=[2,4]<=[8] last_tile_dims={replicated}}"
    assert shardings_of(f"{{{tiled}, {{replicated}}}}", 2) == [tiled, "{replicated}"]
    assert shardings_of("{replicated}", 3) == ["{replicated}"] * 3
    with pytest.raises(dtensor.LayoutError, match="is of 2 results, not of 3"):
        shardings_of(f"{{{tiled}, {{replicated}}}}", 3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{devices=[8]<=[2,4]T(0,0)}", "malformed: repeated axis"),
        ("{devices=[8]<=[2,4]T(1)}", "malformed: axes don't match"),
        ("{devices=[8]<=[4]}", "is for 4 devices"),
        ("{devices=[8]<=[99999999999999]}", "is for 99999999999999 devices"),
        ("{devices=[8]0,1,2,3,4,5,6,6}", "does not name each of the 8 devices once"),
        ("{devices=[8]0,1,2,3,4,5,6,8}", "does not name each of the 8 devices once"),
        ("{devices=[8,]<=[8]}", "is none of"),
        ("{devices=[2,4]<=[8] last_tile_dims={manual}}", "is none of"),
        ("{manual}", "is none of"),
        ("", "is none of"),
    ],
)
def test_malformed_shardings(text: str, why: str) -> None:
    with pytest.raises(dtensor.LayoutError, match=why):
        gspmd_layout(text, Mesh([("x", 8)]), 1)


def test_a_value_without_dimensions() -> None:
    mesh = Mesh([("x", 8)])
    text = "{devices=[8]<=[8] last_tile_dim_replicate}"
    assert gspmd_layout(text, mesh, 0) == Layout.replicated(mesh, 0)


def test_what_xla_adds_for_its_own_use_is_left_out() -> None:
    mesh = Mesh([("x", 8)])
    named = 'metadata={op_name="jit(f)/dot" source_file="a.py"}'
    assert gspmd_layout(f"{{devices=[8]<=[8] {named}}}", mesh, 1) == Layout.parse(
        '#dtensor.layout<@mesh, [{"x"}]>', mesh
    )
    both = 'metadata={{op_name="a"}, {op_name="b"}}'
    assert gspmd_layout(f"{{replicated {both}}}", mesh, 1) == Layout.replicated(mesh, 1)


def test_an_unknown_sharding_leaves_every_dimension_open() -> None:
    mesh = Mesh([("x", 8)])
    assert gspmd_layout("{unknown}", mesh, 2) == Layout.parse(
        "#dtensor.layout<@mesh, [{?}, {?}]>", mesh
    )
