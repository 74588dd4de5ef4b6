"""Plans for meshes without devices: `Mesh.abstract`, and what a `Lowered` says of a plan."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh

MESH = Mesh.abstract([("data", 512), ("model", 8)])
ROWS = Layout(["data", None], MESH)


def loss(params: Any, x: Any) -> Any:
    for layer in params:
        x = x + jnp.tanh(x @ layer["up"]) @ layer["down"]
    return (x**2).mean()


def step(params: Any, x: Any) -> Any:
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x))


def lowered(mesh: Mesh, layers: int = 2) -> dtensor.Lowered:
    shapes = {"up": (64, 128), "down": (128, 64)}
    one = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    layouts = {"up": Layout([None, "model"], mesh), "down": Layout(["model", None], mesh)}
    given = ([layouts] * layers, Layout(["data", None], mesh))
    x = jax.ShapeDtypeStruct((4096, 64), jnp.float32)
    return dtensor.jit(step, in_layouts=given).lower([one] * layers, x)


def test_a_plan_for_devices_that_nobody_has() -> None:
    plan = lowered(MESH)
    assert (MESH.size, MESH.is_abstract) == (4096, True)
    assert str(plan).splitlines()[0] == "step on mesh(data=512, model=8, abstract)"
    # Gradients of 128 x 8 floats per device, over 512 devices, for each of four weights.
    reduced = [c for c in plan.collectives if c.mesh_axes == ("data",)]
    whole = 4 * (64 * 128 // 8) * 4
    assert sum(c.bytes for c in reduced) == pytest.approx(2 * whole * 511 / 512)
    # Forward two products, backward four, but for that of the first layer's input.
    product = 2 * 8 * 64 * 16
    assert plan.local_flops == pytest.approx(11 * product, rel=0.1)
    assert plan.memory is not None
    assert plan.memory.argument_bytes == 4 * 64 * 16 * 4 + 8 * 64 * 4
    assert 'axis "model": given at argument 1' in plan.explain("up")
    assert plan.wire_bytes > 0


def test_a_lowered_program_says_what_the_compiled_one_says() -> None:
    mesh = dtensor.create_mesh([("data", 2), ("model", 4)])
    plan, program = lowered(mesh), lowered(mesh).compile()
    for name in ("collectives", "wire_bytes", "local_flops", "memory", "ledger"):
        assert getattr(plan, name) == getattr(program, name)
    assert plan.explain() == program.explain()
    assert plan.explain("up") == program.explain("up")
    assert plan.explain(top=3) == program.explain(top=3)
    told = [line for line in str(program).splitlines() if not line.startswith("  memory of")]
    assert str(plan).splitlines() == told


def test_devices_change_nothing_of_a_plan() -> None:
    sizes = [("data", 2), ("model", 4)]
    here, nowhere = lowered(dtensor.create_mesh(sizes)), lowered(Mesh.abstract(sizes))
    assert nowhere.collectives == here.collectives
    assert nowhere.as_text() == here.as_text()


def test_groups_of_devices_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    groups = Mesh.groups

    def counted(self: Mesh, axes: Any) -> Any:
        listed.append(tuple(axes))
        return groups(self, axes)

    monkeypatch.setattr(Mesh, "groups", counted)
    plan = lowered(MESH, layers=6)
    assert len(plan.collectives) > len(listed)
    assert len(set(listed)) == len(listed) == 2


def test_an_abstract_mesh_is_itself() -> None:
    assert Mesh.abstract({"data": 512, "model": 8}) == MESH != Mesh([("data", 512), ("model", 8)])
    assert pickle.loads(pickle.dumps(MESH)) == MESH
    assert repr(MESH) == "Mesh(data=512, model=8, abstract)"
    assert not Mesh([("data", 512)]).is_abstract


USES: dict[str, Callable[[], Any]] = {
    "call": lambda: dtensor.jit(loss, in_layouts=({}, ROWS))({}, np.ones((512, 2), np.float32)),
    "compile": lambda: lowered(MESH).compile(),
    "copy": lambda: dtensor.copy_to_mesh(np.ones((512, 2)), ROWS),
    "pack": lambda: dtensor.pack([np.ones((1, 2))] * 4096, ROWS),
    "devices": MESH.devices,
    "names": MESH.to_string,
    "type": MESH.device_type,
}


@pytest.mark.parametrize("use", USES)
def test_what_needs_devices_says_that_there_are_none(use: str) -> None:
    with pytest.raises(dtensor.DTensorError) as caught:
        USES[use]()
    assert str(caught.value).endswith(
        "mesh(data=512, model=8, abstract) is abstract and has no devices; to run or compile, make "
        "the mesh with dtensor.create_mesh, or lower for a target"
    )


def test_two_plans_are_compared_in_fifteen_lines() -> None:
    plan = lowered(MESH, layers=6)
    same = dtensor.compare(plan, lowered(MESH, layers=6))
    assert [line.rpartition(" in ")[2] for line in same.splitlines()] == ["both"] * 3
    mesh = Mesh.abstract([("data", 64), ("model", 64)])
    found = dtensor.compare(plan, lowered(mesh, layers=6)).splitlines()
    assert len(found) <= 15
    assert found[0].startswith("wire bytes: ")
    assert found[0].endswith(" times")
    assert any(line.startswith("  - ") and "over data of f32" in line for line in found)
    assert any(line.startswith("  + ") for line in found)


def test_a_comparison_names_layouts_that_changed() -> None:
    def plan(*spec: Any) -> dtensor.Lowered:
        x, w = (
            jax.ShapeDtypeStruct((4096, 64), jnp.float32),
            jax.ShapeDtypeStruct((64, 32), jnp.float32),
        )
        given = (ROWS, Layout(list(spec), MESH))
        return dtensor.jit(lambda x, w: jnp.tanh(x @ w), in_layouts=given).lower(x, w)

    text = dtensor.compare(plan(None, None), plan(None, "model"))
    assert 'argument w: [{}, {}] -> [{}, {"model"}]' in text
    assert 'result result: [{"data"}, {}] -> [{"data"}, {"model"}]' in text


def test_a_plan_says_where_its_arguments_and_results_lie() -> None:
    plan = lowered(MESH)
    (params, x), _ = plan.in_layouts
    assert x == ROWS
    assert params == plan.out_layouts
    assert params[0]["up"] == Layout([None, "model"], MESH)
