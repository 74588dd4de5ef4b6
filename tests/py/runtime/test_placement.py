"""Layouts as jax's shardings, and back."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import OPEN, UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from dtensor.runtime.placement import jax_mesh, layout_of, mesh_of, named_sharding, refined_mesh

MESH = create_mesh([("x", 2), ("y", 4)])
ATOMS = [AxisRef("x", 1, 2), AxisRef("y", 1, 2), AxisRef("y", 2, 2)]


def test_whole_axes_use_the_mesh_itself() -> None:
    sharding = named_sharding(Layout(["y", UNSHARDED, "x"], MESH))
    assert sharding == NamedSharding(jax_mesh(MESH), PartitionSpec("y", None, "x"))
    both = named_sharding(Layout([("y", "x")], MESH))
    assert both == NamedSharding(jax_mesh(MESH), PartitionSpec(("y", "x")))


def test_parts_of_axes_refine_the_mesh() -> None:
    refined = refined_mesh(MESH, [Layout([AxisRef("y", 2, 2)], MESH)])
    assert dict(refined.jax_mesh.shape) == {"x": 2, "y_0": 2, "y_1": 2}
    assert refined.spec(Layout([("y", "x")], MESH)) == PartitionSpec(("y_0", "y_1", "x"))


def test_the_parts_get_names_that_are_free() -> None:
    mesh = create_mesh([("y", 4), ("y_0", 2)])
    refined = refined_mesh(mesh, [Layout([AxisRef("y", 1, 2)], mesh)])
    assert refined.jax_mesh.axis_names == ("y_0_", "y_1", "y_0")


def test_parts_without_a_common_refinement_are_refused() -> None:
    mesh = Mesh({"x": 6}, range(6))
    layouts = [Layout([AxisRef("x", 1, 2)], mesh), Layout([AxisRef("x", 1, 3)], mesh)]
    with pytest.raises(LayoutError, match=r'axis "x" of 6 devices is cut at 2 and at 3'):
        refined_mesh(mesh, layouts)


@given(st.permutations(ATOMS), st.lists(st.integers(0, 3), min_size=2, max_size=2))
def test_a_layout_is_its_sharding_and_back(order: list[AxisRef], cuts: list[int]) -> None:
    first, second = sorted(cuts)
    layout = Layout([tuple(order[:first]), UNSHARDED, tuple(order[first:second])], MESH)
    sharding = named_sharding(layout)
    assert layout_of(sharding, 3, MESH) == layout
    assert layout_of(sharding, 3) == layout
    # The shards are where the layout's digits say.
    shape = (8, 3, 8)
    indices = sharding.devices_indices_map(shape)
    for position, device in enumerate(jax_mesh(MESH).devices.flat):
        for dim, size, part in zip(layout.dims, shape, indices[device], strict=True):
            coordinate = 0
            for axis in dim.axes:
                coordinate = coordinate * axis.size + MESH.coordinate(position, axis)
            assert (part.start or 0) == coordinate * size // dim.split


def test_no_array_is_partial_or_cut_into_blocks() -> None:
    with pytest.raises(LayoutError, match="must be complete: reduce first"):
        named_sharding(Layout([UNSHARDED], MESH, partial={"sum": "x"}))
    with pytest.raises(LayoutError, match="drop the block count"):
        named_sharding(Layout([(3, "x")], MESH))


def test_shardings_of_jax_meshes_become_layouts() -> None:
    explicit = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    spec = PartitionSpec("x", PartitionSpec.UNCONSTRAINED)
    assert layout_of(NamedSharding(explicit, PartitionSpec("x")), 2) == Layout(["x", None], MESH)
    automatic = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
    assert layout_of(NamedSharding(automatic, spec), 2) == Layout(["x", OPEN], MESH)
    abstract = automatic.abstract_mesh
    assert layout_of(NamedSharding(abstract, PartitionSpec("y")), 1, MESH) == Layout(["y"], MESH)
    assert layout_of(NamedSharding(abstract, PartitionSpec("y")), 1) is None


def test_a_jax_mesh_of_other_devices_is_another_mesh() -> None:
    other = jax.sharding.Mesh(np.array(jax.devices())[::-1].reshape(2, 4), ("x", "y"))
    sharding = NamedSharding(other, PartitionSpec("x"))
    assert layout_of(sharding, 1, MESH) is None
    found = mesh_of(other)
    assert found is not None
    assert found.ids() == tuple(range(7, -1, -1))


def test_one_device_needs_no_named_sharding() -> None:
    mesh = create_mesh([("x", 1)])
    here = SingleDeviceSharding(jax.devices()[0])
    assert layout_of(here, 2, mesh) == Layout.replicated(mesh, 2)
    assert layout_of(here, 2, MESH) is None
    assert layout_of(SingleDeviceSharding(jax.devices()[1]), 2, mesh) is None


def test_an_axis_of_one_device_splits_nothing() -> None:
    mesh = create_mesh([("x", 1), ("y", 2)])
    layout = Layout(["x", "y"], mesh)
    assert layout.dims[0] == Dim()
    assert layout_of(named_sharding(layout), 2, mesh) == layout
