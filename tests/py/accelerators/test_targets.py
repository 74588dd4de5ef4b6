"""Programs compiled for TPUs and GPUs that are not here: what was planned is what they run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.targets.hlo import hlo_collectives
from tests.py.accelerators.programs import PROGRAMS, U, layouts, shaped

TPU, GPUS = "tpu:v5e:2x4", ("gpu:a100:8", "gpu:h100:8")
GRID = [("data", 2), ("model", 4)]


@cache
def compiled_for(target: str, program: str, grid: tuple[tuple[str, int], ...]) -> dtensor.Compiled:
    fn, args, in_layouts, out_layouts = PROGRAMS[program](dtensor.Mesh(grid))
    jitted = dtensor.jit(fn, in_layouts=in_layouts, out_layouts=out_layouts)
    return jitted.lower(*args, target=target).compile()


def bytes_by_kind(collectives: Iterable[Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    for collective in collectives:
        assert collective.trip_count is not None, "a loop of unknown length"
        found[collective.kind] += round(collective.bytes * collective.trip_count)
    return found


def memory_of(compiled: dtensor.Compiled) -> Any:
    memory = compiled.memory_analysis()
    local = sum(
        int(np.prod(info.local_shape)) * np.dtype(info.dtype).itemsize
        for info in compiled.program.args
    )
    assert memory.argument_size_in_bytes >= local  # arrays are padded, to tiles on a TPU
    assert memory.output_size_in_bytes > 0
    assert memory.peak_memory_in_bytes > 0
    return memory


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("target", GPUS)
def test_a_gpu_runs_the_collectives_of_the_plan(target: str, program: str) -> None:
    compiled = compiled_for(target, program, tuple(GRID))
    planned = bytes_by_kind(compiled.collectives)
    found = bytes_by_kind(hlo_collectives(compiled.as_text(), 8))
    assert planned
    assert found.keys() == planned.keys()
    for kind, size in planned.items():  # XLA finds a few that are the same and makes them one
        assert 0.999 * size <= found[kind] <= size, kind
    memory_of(compiled)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_tpu_runs_the_collectives_of_the_plan(program: str) -> None:
    compiled = compiled_for(TPU, program, tuple(GRID))
    planned = bytes_by_kind(compiled.collectives)
    found = bytes_by_kind(hlo_collectives(compiled.as_text(), 8))
    assert planned
    assert found.keys() == planned.keys()
    for kind, size in planned.items():  # what only a matmul reads is sent as bfloat16
        assert size / 2 <= found[kind] <= size, kind
    memory_of(compiled)


@pytest.mark.parametrize(
    ("program", "grid"),
    [
        ("MLP training step", (("data", 16), ("model", 16))),
        ("GPT training step", (("data", 32), ("model", 8))),
    ],
)
def test_a_tpu_slice_of_256_devices(program: str, grid: tuple[tuple[str, int], ...]) -> None:
    compiled = compiled_for("tpu:v5e:16x16", program, grid)
    planned = bytes_by_kind(compiled.collectives)
    found = bytes_by_kind(hlo_collectives(compiled.as_text(), 256))
    assert planned
    assert found.keys() == planned.keys()
    for kind, size in planned.items():
        assert size / 2 <= found[kind] <= size, kind
    memory_of(compiled)


def test_all_kinds_are_all_there_are() -> None:
    for target in (TPU, *GPUS):
        compiled = compiled_for(target, "all five kinds", tuple(GRID))
        assert bytes_by_kind(hlo_collectives(compiled.as_text(), 8)).keys() == {
            "all_gather",
            "all_reduce",
            "all_to_all",
            "collective_permute",
            "reduce_scatter",
        }


@pytest.mark.parametrize("target", [TPU, "gpu:h100:8"])
def test_the_loop_counts_as_often_as_it_runs(target: str) -> None:
    """Of matrices so large that no machine gathers them ahead of the loop."""
    mesh = dtensor.Mesh([("d", 8)])

    def powers(a: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda _, x: jnp.tanh(a @ x), x)

    step = dtensor.jit(powers, in_layouts=layouts(mesh, [U, "d"], ["d", U]))
    compiled = step.lower(shaped(8192, 8192), shaped(8192, 256), target=target).compile()
    trips = {c.trip_count for c in hlo_collectives(compiled.as_text(), 8)}
    assert trips == {c.trip_count for c in compiled.collectives}
    assert 5 in trips


@pytest.mark.parametrize(
    ("target", "devices"),
    [
        ("tpu:v4:2x2x2", 8),  # one device per chip
        ("tpu:v3:2x2", 8),  # two
        ("tpu:v5p:2x2x4", 16),
        ("tpu:v6e:2x4", 8),
        ("tpu:v5e:2x4", 2),  # the first two of eight
        ("tpu:v5e:2x4", 1),
        ("gpu:h100:2x8", 16),
        ("gpu:h200:4", 2),
    ],
)
def test_other_machines_and_parts_of_them(target: str, devices: int) -> None:
    mesh = dtensor.Mesh([("d", devices)])
    step = dtensor.jit(lambda a, b: a @ b, in_layouts=layouts(mesh, [U, "d"], ["d", U]))
    compiled = step.lower(shaped(64, 256), shaped(256, 512), target=target).compile()
    found = bytes_by_kind(hlo_collectives(compiled.as_text(), devices))
    assert found == bytes_by_kind(compiled.collectives)
    assert set(found) == ({"all_reduce"} if devices > 1 else set())


def test_a_part_of_a_large_slice_is_refused_in_words() -> None:
    mesh = dtensor.Mesh([("d", 8)])
    lowered = dtensor.jit(jnp.sum, in_layouts=layouts(mesh, ["d"])).lower(
        shaped(64), target="tpu:v5e:16x16"
    )
    with pytest.raises(dtensor.CompileError, match="all of its 256 devices only, and the mesh"):
        lowered.compile()


def test_libtpu_says_which_slices_there_are_not() -> None:
    mesh = dtensor.Mesh([("d", 9)])
    lowered = dtensor.jit(jnp.sum, in_layouts=layouts(mesh, ["d"])).lower(
        shaped(63), target="tpu:v5e:3x3"
    )
    with pytest.raises(dtensor.CompileError, match="tpu:v5e:3x3: libtpu answers"):
        lowered.compile()


@pytest.mark.parametrize("target", [TPU, "gpu:a100:8"])
def test_what_is_compiled_for_another_machine_cannot_be_called(target: str) -> None:
    compiled = compiled_for(target, "matmul", tuple(GRID))
    with pytest.raises(
        dtensor.CompileError, match=f"ahead of time for {target}, which is not this machine"
    ):
        compiled(np.ones((512, 1024), np.float32), np.ones((1024, 384), np.float32))


@pytest.mark.parametrize("target", [TPU, "gpu:h100:8"])
def test_the_report(target: str) -> None:
    compiled = compiled_for(target, "matmul", tuple(GRID))
    first, _, *rest = compiled.target_report().splitlines()
    assert first == f"{target}, mesh data=2 x model=4"
    assert rest[1].split() == ["all_reduce", "1", "589,824", "1", "589,824"]
    words = [line.rsplit(maxsplit=1) for line in rest[4:]]
    memory = {name.strip(): int(size.replace(",", "")) for name, size in words[1:]}
    assert memory["arguments"] == 4 * (256 * 256 + 256 * 384)
    assert memory["results"] == 4 * 256 * 384
    assert memory["arguments"] + memory["results"] <= memory["peak"] < 10**9


def test_a_module_is_compiled_for_a_target() -> None:
    source = """
        "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
        func.func public @main(
            %a: tensor<16x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}
        ) -> (tensor<16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
          %0 = stablehlo.constant dense<0.0> : tensor<f32>
          %1 = stablehlo.reduce(%a init: %0) applies stablehlo.add across dimensions = [1]
              : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
          return %1 : tensor<16xf32>
        }"""
    compiled = dtensor.compile_mlir(source, target=TPU)
    assert [c.kind for c in hlo_collectives(compiled.as_text(), 8)] == ["all_reduce"]
    assert compiled.target == dtensor.compile_mlir(source, target=compiled.target).target


def test_lapack_is_that_of_the_target() -> None:
    mesh = dtensor.Mesh(GRID)
    cholesky = dtensor.jit(jnp.linalg.cholesky, in_layouts=layouts(mesh, ["data", U, U]))
    args = (shaped(4, 16, 16),)
    on_tpu = cholesky.lower(*args, target=TPU).compile().as_text()
    on_gpu = cholesky.lower(*args, target="gpu:a100:8").compile().as_text()
    assert '"lapack_' not in on_tpu
    assert '"lapack_' not in on_gpu
    assert "cusolver_potrf" in on_gpu


@pytest.mark.parametrize("target", [TPU, "gpu:a100:8"])
def test_a_call_that_only_the_cpu_knows_is_refused_in_words(target: str) -> None:
    lowered = jax.jit(jnp.linalg.cholesky).lower(shaped(16, 16))
    source = str(lowered.compiler_ir("stablehlo"))
    with pytest.raises(dtensor.CompileError, match=f"cannot compile it for {target}: .*lapack_"):
        dtensor.compile_mlir(source, mesh=dtensor.Mesh(GRID), target=target)


def test_too_much_memory_is_what_xla_says() -> None:
    mesh = dtensor.Mesh([("d", 8)])
    outer = dtensor.jit(lambda a: jnp.sort(a.T @ a, 0), in_layouts=layouts(mesh, [U, "d"]))
    lowered = outer.lower(shaped(8, 800_000), target=TPU)
    with pytest.raises(dtensor.CompileError, match=r"Ran out of memory on HBM.*15\.75G"):
        lowered.compile()


def test_a_mesh_over_this_machine_is_laid_over_the_target() -> None:
    mesh = dtensor.create_mesh(GRID)
    a, b = layouts(mesh, ["data", "model"], ["model", U])
    product = dtensor.jit(lambda a, b: a @ b, in_layouts=(a, b))
    x = dtensor.copy_to_mesh(np.ones((16, 8), np.float32), a)
    y = dtensor.copy_to_mesh(np.ones((8, 12), np.float32), b)
    compiled = product.lower(x, y, target=TPU).compile()
    assert compiled.mesh == mesh
    assert [c.kind for c in hlo_collectives(compiled.as_text(), 8)] == ["all_reduce"]
    shard = dtensor.unpack(product(x, y))[0]
    np.testing.assert_array_equal(np.asarray(shard), np.full((8, 12), 8))


FRESH = """
import jax, jax.numpy as jnp, dtensor
mesh = dtensor.Mesh([("d", 8)])
total = dtensor.jit(jnp.sum, in_layouts=(dtensor.Layout(["d"], mesh),))
struct = jax.ShapeDtypeStruct((64,), jnp.float32)
for target in ("tpu:v5e:2x4", "gpu:a100:8"):
    assert "all-reduce" in total.lower(struct, target=target).compile().as_text()
print(jax.devices()[0].platform, float(jax.jit(jnp.sum)(jnp.ones(4))))
"""


@pytest.mark.parametrize("platforms", ["cpu", None])
def test_the_process_keeps_its_cpu_whatever_jax_platforms_says(
    platforms: str | None, tmp_path: Path
) -> None:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "TPU_", "XLA_"))}
    keep |= {} if platforms is None else {"JAX_PLATFORMS": platforms}
    root = str(Path(dtensor.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", FRESH],
        env={**keep, "PYTHONPATH": root},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["cpu", "4.0"]


def test_the_page_shows_what_its_program_prints(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "targets.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\nsays\n\n```\n(.*?)```", page, re.DOTALL)
    assert found is not None
    (tmp_path / "example.py").write_text(found[1], encoding="utf-8")
    run = subprocess.run(
        [sys.executable, tmp_path / "example.py"],
        env={**os.environ, "PYTHONPATH": str(Path(dtensor.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert without_memory(run.stdout) == without_memory(found[2]), run.stderr


def without_memory(text: str) -> list[str]:
    """The lines, those of memory without their numbers, which change with XLA."""
    lines, in_memory = [], False
    for line in text.splitlines():
        in_memory = line.startswith("memory") or (in_memory and ":" not in line)
        lines.append(re.sub(r"[\d,]+$", "", line) if in_memory else line)
    return lines
