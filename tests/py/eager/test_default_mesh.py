"""The mesh of operations whose arguments lie on none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator

import jax
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from dtensor.compiler.default_mesh import default_mesh, get_default_mesh
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, placed


def test_there_is_none_at_first() -> None:
    assert get_default_mesh() is None


def test_it_nests_and_ends() -> None:
    with default_mesh(MESH_2X4) as mesh:
        assert mesh == get_default_mesh() == MESH_2X4
        with default_mesh(MESH_3X2):
            assert get_default_mesh() == MESH_3X2
        assert get_default_mesh() == MESH_2X4
    assert get_default_mesh() is None


def test_it_ends_when_an_exception_leaves_it() -> None:
    with pytest.raises(ZeroDivisionError), default_mesh(MESH_2X4):
        1 / 0  # noqa: B018
    assert get_default_mesh() is None


def test_one_context_can_be_entered_again() -> None:
    context = default_mesh(MESH_2X4)
    for _ in range(2):
        with context, context:
            assert get_default_mesh() == MESH_2X4
        assert get_default_mesh() is None


def test_it_decorates_functions() -> None:
    @default_mesh(MESH_2X4)
    def ones() -> dtensor.DTensor:
        """Some ones."""
        made: dtensor.DTensor = dnp.ones((4, 2))
        return made

    assert ones().layout == layout(MESH_2X4, None, None)
    assert ones.__doc__ == "Some ones."
    assert get_default_mesh() is None


def test_threads_have_their_own() -> None:
    seen = []

    def look() -> None:
        seen.append(get_default_mesh())
        with default_mesh(MESH_3X2):
            inside.wait()
            outside.wait()

    inside, outside = threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)
    with default_mesh(MESH_2X4):
        thread = threading.Thread(target=look)
        thread.start()
        inside.wait()
        assert get_default_mesh() == MESH_2X4
        outside.wait()
        thread.join()
    assert seen == [None]


@pytest.mark.parametrize("wrong", ["x=2", None, 4])
def test_anything_but_a_mesh_is_an_error(wrong: object) -> None:
    with pytest.raises(dtensor.MeshError, match=r"expected a Mesh, got \w+; make one with"):
        default_mesh(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: dnp.zeros((3, 2)),
        lambda: dnp.arange(6),
        lambda: dnp.add(np.arange(3), 1.5),
        lambda: dnp.asarray(np.ones((30, 30), np.float32)),
    ],
)
def test_operations_run_there_and_are_replicated(make: Callable[[], dtensor.DTensor]) -> None:
    with default_mesh(MESH_3X2):
        made = make()
    assert made.mesh == MESH_3X2
    assert made.layout.is_fully_replicated()


def test_dtensors_stay_on_their_own_mesh() -> None:
    x = placed(np.arange(6.0), MESH_3X2, "x")
    with default_mesh(MESH_2X4):
        assert (x + 1).mesh == MESH_3X2
        assert dnp.ones((4,), layout=layout(MESH_3X2, "y")).mesh == MESH_3X2
        assert_same(x * 2, np.arange(6.0) * 2)


def test_compiled_functions_run_there_too() -> None:
    doubled = dtensor.jit(lambda x: x * 2, in_layouts=jax.P("x"))
    values = np.arange(6, dtype=np.float32)
    for mesh in (MESH_2X4, MESH_3X2, MESH_2X4):
        with default_mesh(mesh):
            y = doubled(values)
            total = dtensor.jit(lambda x: x.sum())(values)
        assert y.layout == layout(mesh, "x")
        assert total.mesh == mesh
        assert_same(y, values * 2)
    x = placed(values, MESH_3X2, "y")
    with default_mesh(MESH_2X4):
        assert dtensor.jit(lambda x: x * 2)(x).mesh == MESH_3X2
    with pytest.raises(dtensor.CompileError, match=r"or under dtensor\.default_mesh\(mesh\)"):
        doubled(values)


def test_the_specs_of_a_variable_and_of_packed_shards_are_of_its_axes() -> None:
    values = np.arange(6, dtype=np.float32)
    with default_mesh(MESH_3X2):
        variable = dtensor.DVariable(values, layout=jax.P("x"))
        packed = dtensor.pack(variable.unpack(), jax.P("x"))
    assert variable.layout == packed.layout == layout(MESH_3X2, "x")


def test_specs_of_a_module_are_of_its_axes() -> None:
    text = "func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> { return %x : tensor<6xf32> }"
    with default_mesh(MESH_3X2):
        module = dtensor.compile_mlir(text, in_layouts=[jax.P("x")])
    (y,) = module(np.arange(6, dtype=np.float32))
    assert y.layout == layout(MESH_3X2, "x")


def test_generators_that_take_turns_leave_nothing_behind() -> None:
    def generator(mesh: dtensor.Mesh) -> Generator[None, None, None]:
        with default_mesh(mesh):
            yield

    first, second = generator(MESH_2X4), generator(MESH_3X2)
    next(first)
    next(second)
    first.close()
    assert get_default_mesh() == MESH_3X2
    second.close()
    assert get_default_mesh() is None


def test_tasks_have_their_own_and_coroutines_can_be_decorated() -> None:
    @default_mesh(MESH_3X2)
    async def decorated() -> dtensor.Mesh | None:
        await asyncio.sleep(0)
        return get_default_mesh()

    async def inside(mesh: dtensor.Mesh) -> dtensor.Mesh | None:
        with default_mesh(mesh):
            await asyncio.sleep(0)
            return get_default_mesh()

    async def everything() -> list[dtensor.Mesh | None]:
        return list(await asyncio.gather(inside(MESH_2X4), decorated(), inside(MESH_3X2)))

    assert asyncio.run(everything()) == [MESH_2X4, MESH_3X2, MESH_3X2]
    assert get_default_mesh() is None


def test_a_generator_cannot_be_decorated_without_effect() -> None:
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match=r"cannot decorate the generator generator, .* `with"):
        default_mesh(MESH_2X4)(generator)


def test_it_says_which_mesh_it_is() -> None:
    assert repr(default_mesh(MESH_3X2)) == "default_mesh(mesh(x=3, y=2))"
