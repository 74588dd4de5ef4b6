"""Meshes over all cores of a TPU slice, in ring order."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import mesh_devices
from dtensor.runtime.tpu.mesh import create_tpu_mesh
from dtensor.runtime.tpu.topology import device_location
from tests.py.runtime.tpu.slices import FakeTpu, distance, tpu_slice

V5E = tpu_slice([2, 4, 1, 1])
V4 = tpu_slice([4, 4, 1, 2])


def locations(mesh: Mesh) -> Any:
    """Where each device of a mesh is: an array of the mesh's shape, with an axis more."""
    places = [device_location(device) for device in mesh_devices(mesh)]
    return np.array(places).reshape(*mesh.sizes, 4)


def hops(ring: Any) -> list[int]:
    """The distance from each member of a ring to the next, and from the last to the first."""
    members = [tuple(cell) for cell in ring.reshape(-1, 4).tolist()]
    return [distance(members[i - 1], cell) for i, cell in enumerate(members)]


def test_a_mesh_has_rings_along_all_but_the_first_dimension() -> None:
    mesh = create_tpu_mesh(["data", "model"], [4, 8], "rings", devices=V4)
    assert mesh.axes == (("data", 4), ("model", 8))
    assert mesh.name == "rings"
    assert mesh.device_type() == "TPU"
    places = locations(mesh)
    assert [hops(row) for row in places] == [[1] * 8] * 4
    assert [row[:, 1].tolist() for row in places] == [[y] * 8 for y in range(4)]


def test_several_ring_dimensions_together_are_one_ring() -> None:
    mesh = create_tpu_mesh(["a", "b", "c"], [2, 2, 8], devices=V4)
    assert [hops(part) for part in locations(mesh)] == [[1] * 16] * 2


def test_rings_for_the_leading_dimensions() -> None:
    mesh = create_tpu_mesh(["a", "b"], [4, 2], ring_dims=1, devices=V5E)
    places = locations(mesh)
    assert [hops(places[:, column]) for column in range(2)] == [[1] * 4] * 2
    trailing = create_tpu_mesh(["b", "a"], [2, 4], ring_dims=-1, devices=V5E)
    assert (places == locations(trailing).transpose(1, 0, 2)).all()


def test_a_mesh_of_one_dimension_is_a_ring_and_none_if_so_asked() -> None:
    mesh = create_tpu_mesh(["x"], [8], devices=V5E)
    assert hops(locations(mesh)) == [1] * 8
    plain = create_tpu_mesh(["x"], [8], ring_dims=0, devices=V5E)
    assert [cell[:2] for cell in locations(plain).tolist()] == [
        [x, y] for y in range(4) for x in range(2)
    ]


def test_a_slice_that_begins_elsewhere_and_a_topology_object_are_taken() -> None:
    class Description:
        devices = tpu_slice([2, 2, 2, 1], origin=(3, 0, 2))

    mesh = create_tpu_mesh(["a", "b"], [2, 4], "elsewhere", devices=Description())
    places = locations(mesh)
    assert [hops(ring) for ring in places] == [[1] * 4] * 2
    assert [ring.min(axis=0).tolist() for ring in places] == [[3, 0, 2, 0], [3, 0, 3, 0]]
    assert [ring.max(axis=0).tolist() for ring in places] == [[4, 1, 2, 0], [4, 1, 3, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mesh_dim_names": ["a"]}, r"mesh_dim_names \['a'\] and mesh_shape \[2, 4\] must be as"),
        ({"mesh_dim_names": "ab"}, "must be as long as each other"),
        ({"mesh_dim_names": ["a", "a"]}, "mesh axis 'a' is given twice"),
        ({"mesh_shape": [2, 4.0]}, "mesh axis 'b' has size 4.0; it must be a positive integer"),
        ({"mesh_shape": [2, -4]}, "mesh axis 'b' has size -4"),
        (
            {"mesh_shape": [2, 2]},
            r"mesh shape \[2, 2\] has 4 places and cannot map one to one to 8",
        ),
        ({"ring_dims": 3}, "invalid ring_dims value: 3; give one from -2 to 2"),
        ({"ring_dims": -3}, "invalid ring_dims value: -3"),
        ({"ring_dims": "1"}, "invalid ring_dims value: '1'"),
        ({"devices": []}, "no devices were given"),
        ({"devices": V5E[:7]}, r"unsupported TPU slice size: \[2, 4, 1, 1\], with 7 cores"),
        ({"devices": [*V5E, V5E[0]]}, "9 devices were given for 8 places"),
        ({"devices": tpu_slice([2, 1, 1, 4])}, r"unsupported TPU slice size: \[2, 1, 1, 4\]"),
        ({"devices": None}, r"invalid TPU topology, run dtensor\.tpu\.init.*: jax has 8 CPU dev"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments: dict[str, Any], message: str) -> None:
    given = {"mesh_dim_names": ["a", "b"], "mesh_shape": [2, 4], "devices": V5E, **arguments}
    with pytest.raises(ValueError, match=message) as error:
        create_tpu_mesh(**given)
    assert isinstance(error.value, MeshError)
    assert "\n" not in str(error.value)


SIZES = st.tuples(*[st.integers(1, 4)] * 3, st.integers(1, 2))


@given(SIZES, st.data())
def test_every_mesh_has_every_core_once_and_rings_of_single_hops(
    sizes: tuple[int, ...], data: st.DataObject
) -> None:
    count = math.prod(sizes)
    first = data.draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    leading = data.draw(st.booleans())
    devices: list[FakeTpu] = tpu_slice(sizes)
    mesh = create_tpu_mesh(
        ["a", "b"],
        [first, count // first],
        "s_" + "_".join(map(str, sizes)),  # equal ids in slices of other sizes are other devices
        ring_dims=1 if leading else -1,
        devices=data.draw(st.permutations(devices)),
    )
    places = locations(mesh)
    cells = itertools.product(*map(range, sizes))
    assert sorted(map(tuple, places.reshape(-1, 4).tolist())) == sorted(cells)
    for ring in places.swapaxes(0, 1) if leading else places:
        assert max(hops(ring)[1:], default=0) <= 1
