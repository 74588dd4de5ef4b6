"""Numbers that no mesh can have, in whatever text they stand: a sentence says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dtensor.compiler.targets.target import Target
from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import DTensorError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.tools.command_line import parse_mesh

MESH = Mesh([("x", 2)])
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:"


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (Mesh.parse, '#dtensor.mesh<["x"=N]>'),
        (Mesh.parse, '#dtensor.mesh<["x"=1], device_ids=[N]>'),
        (Mesh.from_string, f"|x=N|0|0|{DEVICE}0"),
        (Mesh.from_string, f"|x=1|N|0|{DEVICE}0"),
        (Layout.from_string, f"sharding_specs:x:(1)N, mesh:|x=2|0,1|0,1|{DEVICE}0,{DEVICE}1"),
        (lambda text: Layout.parse(text, MESH), '#dtensor.layout<@mesh, [{"x":(1)N}]>'),
        (lambda text: Layout.parse(text, MESH), '#dtensor.layout<@mesh, [{"x"} pN]>'),
        (lambda text: Layout(["x@" + text], MESH), "N"),
        (DeviceSpec.from_string, f"{DEVICE}N"),
        (parse_mesh, "x=N"),
        (parse_mesh, "x=\N{SUPERSCRIPT TWO}"),
        (Target.parse, "tpu:v5e:NxN"),
    ],
)
def test_a_number_of_any_length_is_read_or_refused(
    read: Callable[[str], object], text: str
) -> None:
    with pytest.raises(DTensorError):
        read(text.replace("N", "7" * 5000))
