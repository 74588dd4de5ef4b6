"""Meshes over all cores of a TPU slice, as jax's mesh_utils orders them."""

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
from tests.py.runtime.tpu.slices import tpu_slice

V5E = tpu_slice([2, 4, 1, 1])
CUBE = tpu_slice([4, 4, 4, 1])


def locations(mesh: Mesh) -> Any:
    """Where each device of a mesh is: an array of the mesh's shape, with an axis more."""
    places = [device_location(device) for device in mesh_devices(mesh)]
    return np.array(places).reshape(*mesh.sizes, 4)


def test_the_last_dimensions_take_whole_axes_of_the_machine() -> None:
    mesh = create_tpu_mesh(["data", "model"], [4, 16], "cube", devices=CUBE)
    assert mesh.axes == (("data", 4), ("model", 16))
    assert mesh.name == "cube"
    assert mesh.device_type() == "TPU"
    for plane in locations(mesh):
        sizes = plane.max(axis=0) - plane.min(axis=0) + 1
        assert sorted(sizes.tolist()) == [1, 1, 4, 4]


def test_the_leading_dimensions_can_be_those_that_communicate_most() -> None:
    leading = create_tpu_mesh(["a", "b", "c"], [4, 4, 2], "leading", ring_dims=2, devices=CUBE[:32])
    trailing = create_tpu_mesh(["c", "a", "b"], [2, 4, 4], "trailing", devices=CUBE[:32])
    assert (locations(leading) == locations(trailing).transpose(1, 2, 0, 3)).all()


def test_a_small_slice_of_one_dimension_is_a_ring_and_none_if_so_asked() -> None:
    devices = tpu_slice([2, 4, 1, 1], device_kind="TPU v5 lite")
    around = locations(create_tpu_mesh(["x"], [8], "ring", devices=devices))
    hops = np.abs(around - np.roll(around, 1, axis=0)).sum(axis=1)
    assert hops.max() <= 2
    plain = create_tpu_mesh(["x"], [8], ring_dims=0, devices=V5E)
    assert [cell[:2] for cell in locations(plain).tolist()] == [
        [x, y] for y in range(4) for x in range(2)
    ]


def test_a_slice_that_begins_elsewhere_and_a_topology_object_are_taken() -> None:
    class Description:
        devices = tpu_slice([2, 2, 2, 1], origin=(3, 0, 2))

    mesh = create_tpu_mesh(["a", "b"], [2, 4], "elsewhere", devices=Description())
    places = locations(mesh).reshape(-1, 4)
    assert places.min(axis=0).tolist() == [3, 0, 2, 0]
    assert places.max(axis=0).tolist() == [4, 1, 3, 0]


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
        ({"mesh_shape": [1, 7], "devices": V5E[:7]}, "must fill a box, one to a chip where"),
        ({"devices": [*V5E, V5E[0]]}, "9 devices were given for 8 places"),
        ({"devices": tpu_slice([2, 2, 1, 2])}, 'one device per chip \\("megacore" mode\\)'),
        ({"devices": None}, r"invalid TPU topology, run dtensor\.tpu\.init.*: jax has 8 CPU dev"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments: dict[str, Any], message: str) -> None:
    given = {"mesh_dim_names": ["a", "b"], "mesh_shape": [2, 4], "devices": V5E, **arguments}
    with pytest.raises(ValueError, match=message) as error:
        create_tpu_mesh(**given)
    assert isinstance(error.value, MeshError)
    assert "\n" not in str(error.value)


SIZES = st.tuples(*[st.integers(1, 4)] * 3, st.just(1))


@given(SIZES, st.data())
def test_every_mesh_has_every_core_once(sizes: tuple[int, ...], data: st.DataObject) -> None:
    count = math.prod(sizes)
    first = data.draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    mesh = create_tpu_mesh(
        ["a", "b"],
        [first, count // first],
        "s_" + "_".join(map(str, sizes)),  # equal ids in slices of other sizes are other devices
        ring_dims=data.draw(st.integers(-2, 2)),
        devices=data.draw(st.permutations(tpu_slice(sizes))),
    )
    cells = itertools.product(*map(range, sizes))
    assert sorted(map(tuple, locations(mesh).reshape(-1, 4).tolist())) == sorted(cells)
