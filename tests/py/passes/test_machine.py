"""Machines: presets, TOML files, and the cost of a mesh's axes."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.targets.target import Target, machine_of
from dtensor.dialect.errors import CompileError
from dtensor.dialect.mesh import Mesh
from dtensor.passes.base import PassState
from dtensor.passes.cost.machine import Level, Machine
from dtensor.passes.cost.machines import MACHINES, machine_of_kind
from dtensor.passes.cost.model import CostModel, Link
from tests.py.compiler.programs import compiled, main

FILE = """
name = "two racks"
matmul_flops = { bf16 = 4e14, f32 = 1e14 }
vector_flops = 2e13
memory_bytes_per_second = 2e12
memory_bytes = 64e9

[[levels]]
name = "board"
devices = 4
alpha = 5e-6
bytes_per_second = 3e11

[[levels]]
name = "ethernet"
alpha = 4e-5
bytes_per_second = 12.5e9
"""
BOARD = Level("board", 4, Link(5e-6, 3e11))
ETHERNET = Level("ethernet", None, Link(4e-5, 12.5e9))
RACKS = Machine(
    "two racks", (BOARD, ETHERNET), (("bf16", 4e14), ("f32", 1e14)), 2e13, 2e12, 64 * 10**9
)


def written(folder: Path, text: str) -> Path:
    path = folder / "machine.toml"
    path.write_text(text)
    return path


def test_a_file_describes_a_machine(tmp_path: Path) -> None:
    assert Machine.from_toml(written(tmp_path, FILE)) == RACKS
    assert Machine.of(str(tmp_path / "machine.toml")) == RACKS
    assert Machine.of(tmp_path / "machine.toml") == RACKS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("vector_flops = 2e13", ""), "lacks the key 'vector_flops', a number; add it"),
        (("vector_flops", "vector_flop"), "unknown key 'vector_flop'; did you mean 'vector_flops'"),
        (("2e13", '"fast"'), "'vector_flops' is 'fast'; give a number"),
        (("64e9", "0.5"), "'memory_bytes' is 0.5; give a whole number"),
        (("alpha = 4e-5", ""), "level 1 lacks the key 'alpha', a number; add it"),
        (("alpha = 4e-5", "alpha = 0"), "alpha of ethernet is 0.0; it must be a positive number"),
        (("devices = 4", ""), "the last level of the network joins any number"),
        (("bf16 = 4e14", "bf17 = 4e14"), "matmul_flops of 'bf17'; known are f64, f32_h"),
        (("devices = 4", "devices = 4.5"), "'devices' is 4.5; give a whole number"),
        (('name = "two racks"', "name = two"), "machine file .*: Invalid value"),
    ],
)
def test_a_file_that_describes_none_is_refused(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    assert change[0] in FILE
    with pytest.raises(CompileError, match=message):
        Machine.from_toml(written(tmp_path, FILE.replace(*change, 1)))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"machine file .*none.toml: .*No such file"):
        Machine.of(str(tmp_path / "none.toml"))


def test_an_axis_communicates_over_the_level_that_joins_its_devices() -> None:
    mesh = Mesh([("data", 6), ("model", 2), ("inner", 2)])
    cost = RACKS.cost_model(mesh)
    assert cost.axis_link("inner") == BOARD.link
    assert cost.axis_link("model") == BOARD.link  # four neighbours are on one board
    assert cost.axis_link("data") == ETHERNET.link
    assert RACKS.level(1, 3, 12) == ETHERNET  # every second group of three lies on two boards
    assert (cost.peak_flops, cost.hbm_bytes_per_second) == (4e14, 2e12)


@pytest.mark.parametrize(
    ("name", "axes", "level"),
    [
        ("h100", {"data": 8}, 0),
        ("h100", {"data": 3}, 0),  # of one host
        ("h100", {"data": 2, "model": 6}, 1),  # two hosts of 6
        ("h100", {"data": 3, "model": 8}, 1),
        ("v5p", {"data": 512}, 0),  # a slice joins up to 8960, and need not have as many
        ("v5p", {"data": 4096, "model": 2}, 0),
        ("v4", {"data": 192}, 0),
        ("v6e", {"data": 2, "model": 256}, 1),
        ("v6e", {"data": 96}, 0),
    ],
)
def test_devices_come_in_blocks_of_one_size(name: str, axes: dict[str, int], level: int) -> None:
    machine = Machine.named(name)
    cost = machine.cost_model(Mesh(list(axes.items())))
    assert cost.axis_link("data") == machine.levels[level].link


def test_levels_join_more_and_more_devices() -> None:
    pair = Level("pair", 2, Link(1e-6, 3e11))
    with pytest.raises(CompileError, match="its levels join 4, 2 devices; give the innermost"):
        Machine("odd", (BOARD, pair, ETHERNET), {"bf16": 1e14}, 1e13, 1e12, 10**9)


def test_a_type_without_a_peak_has_that_of_the_next_wider_one() -> None:
    assert RACKS.matmul_peak("bf16") == 4e14
    assert RACKS.matmul_peak("f8E4M3FN") == 4e14
    assert RACKS.matmul_peak("f32") == 1e14
    assert RACKS.matmul_peak("f64") == 1e14  # the slowest there is
    assert RACKS.matmul_peak("f32_highest") == 1e14


@pytest.mark.parametrize("name", MACHINES)
def test_machines_by_name_are_physical(name: str) -> None:
    machine = Machine.named(name)
    assert machine.name == name
    for level in machine.levels:
        assert level.link.alpha >= 1e-6  # a collective takes a microsecond at least
        assert level.link.bytes_per_second < machine.memory_bytes_per_second
    assert machine.vector_flops < machine.matmul_peak("bf16")
    bandwidths = [level.link.bytes_per_second for level in machine.levels]
    assert bandwidths == sorted(bandwidths, reverse=True)


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(CompileError, match="there is no machine 'h10'; did you mean 'h100'"):
        Machine.named("h10")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H200", "h200"),
        ("TPU v4", "v4"),
        ("TPU v5 lite", "v5e"),
        ("TPU v5", "v5p"),
        ("TPU v6 lite", "v6e"),
    ],
)
def test_devices_are_known_by_what_jax_calls_them(kind: str, name: str) -> None:
    assert machine_of_kind(kind) is MACHINES[name]


def test_the_machine_is_that_of_the_target_or_of_the_devices() -> None:
    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    assert machine_of(mesh, Target.parse("tpu:v5e:2x4")) is MACHINES["v5e"]
    assert machine_of(mesh, None) is None  # CPU devices stand in for others
    assert machine_of(None, None) is None
    assert machine_of_kind("cpu") is None


def test_accelerators_of_unknown_speed_are_told() -> None:
    step = dtensor.jit(jnp.sum, mesh=dtensor.Mesh.abstract([("x", 256)]))
    lowered = step.lower(np.ones(8, np.float32), target="tpu:v2:16x16")
    assert "the speed of v2 is not known: planned by bytes" in str(lowered)
    options = dtensor.CompileOptions(machine="v4")
    step = dtensor.jit(jnp.sum, mesh=dtensor.Mesh.abstract([("x", 256)]), options=options)
    assert "not known" not in str(step.lower(np.ones(8, np.float32), target="tpu:v2:16x16"))


# A plan depends on the machine: between equal bytes, fewer collectives; else fewer seconds.

SMALL = main(
    """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#},
        %w: tensor<16x8xf32> {dtensor.layout = #L[{}, {"y"}]#})
        -> (tensor<8x8xf32> {dtensor.layout = #L[{}, {}]#})""",
    """
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
        : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>""",
)


def planned_seconds(**options: Any) -> float:
    return sum(r.seconds for r in compiled(SMALL, **options).ledger.of_kind("relayout"))


def test_what_a_plan_costs_follows_the_machine(tmp_path: Path) -> None:
    path = written(tmp_path, FILE)
    slow, fast, default = (planned_seconds(machine=m) for m in (RACKS, "v5p", None))
    assert slow > fast > default > 0
    assert planned_seconds(machine=str(path)) == slow
    assert planned_seconds(cost=CostModel()) == default


def test_numbers_of_each_kind_are_given_in_a_dict_too() -> None:
    flops: Any = {"bf16": 4e14, "f32": 1e14}
    levels: Any = [BOARD, ETHERNET]
    assert Machine("two racks", levels, flops, 2e13, 2e12, 64 * 10**9) == RACKS
    links: Any = {"x": BOARD.link, "y": ETHERNET.link}
    assert CostModel(axis_links=links) == CostModel(axis_links=tuple(links.items()))
    assert hash(CostModel(axis_links=links)) == hash(CostModel(axis_links=tuple(links.items())))


def test_a_machine_and_a_cost_are_one_too_many() -> None:
    with pytest.raises(CompileError, match="machine and cost are both given; give one"):
        dtensor.CompileOptions(machine="h100", cost=CostModel())
    assert dtensor.CompileOptions(machine="h100").machine is MACHINES["h100"]


def test_a_state_without_a_machine_has_the_default_cost() -> None:
    assert PassState().cost_model() == CostModel()
    mesh = Mesh([("x", 8)])
    assert PassState(mesh=mesh, machine=RACKS).cost_model() == RACKS.cost_model(mesh)
