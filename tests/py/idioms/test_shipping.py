"""Programs that leave their process: pickled, exported, and found in jax's compilation cache."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor import CompileError, Layout, copy_to_mesh, jit
from dtensor.compiler.kept_plans import kept_plan
from dtensor.runtime.placement import jax_mesh

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
X = np.arange(24, dtype=np.float32).reshape(6, 4) / 10
V = np.arange(1, 5, dtype=np.float32)
LAYOUTS = ({"w": Layout(["x", "y"], MESH)}, Layout(["y"], MESH))


def layer(params: Any, v: Any, *, key: Any) -> Any:
    y = jnp.tanh(params["w"] @ v)
    return {"y": y, "noise": (jax.random.normal(key, (8,)), jax.random.split(key, 4))}


def compiled() -> Any:
    key = jax.random.key(1)
    return jit(layer, in_layouts=LAYOUTS).lower({"w": X}, V, key=key).compile()


def check(found: Any) -> None:
    expected = jax.jit(layer)({"w": X}, V, key=jax.random.key(1))
    y, noise, keys = jax.tree.leaves([found["y"], *found["noise"]])
    np.testing.assert_allclose(y, expected["y"], rtol=1e-5)
    np.testing.assert_array_equal(noise, expected["noise"][0])
    wanted = jax.random.key_data(expected["noise"][1])
    np.testing.assert_array_equal(jax.random.key_data(keys), wanted)


def test_what_describes_a_program_can_be_pickled() -> None:
    options = dtensor.CompileOptions(strict=True, reduce_dtype="float32")
    for value in (MESH, LAYOUTS, options, dtensor.CostModel()):
        assert pickle.loads(pickle.dumps(value)) == value
    program = compiled()
    again = pickle.loads(pickle.dumps(program))
    assert again.in_layouts == program.in_layouts
    assert again.collectives == program.collectives
    assert again.explain() == program.explain()
    assert again.program.fingerprint == program.program.fingerprint
    check(again({"w": X}, V, key=jax.random.key(1)))
    lowered = pickle.loads(pickle.dumps(jit(jnp.sin, in_layouts=LAYOUTS[1]).lower(V)))
    assert lowered.compile()(V).layout == LAYOUTS[1]


def test_a_program_can_be_exported() -> None:
    exported = compiled().export()
    assert exported.nr_devices == 8
    assert exported.fun_name == "layer"
    mesh = jax_mesh(MESH)
    w = jax.device_put(X, NamedSharding(mesh, P("x", "y")))
    v = jax.device_put(V, NamedSharding(mesh, P("y")))
    key = jax.device_put(jax.random.key(1), NamedSharding(mesh, P()))
    check(jax.jit(exported.call)({"w": w}, v, key=key))


def test_a_program_with_a_transform_can_be_exported() -> None:
    program = jit(jnp.fft.rfft, in_layouts=Layout(["x", None], MESH)).lower(X).compile()
    x = jax.device_put(X, NamedSharding(jax_mesh(MESH), P("x")))
    found = jax.jit(program.export().call)(x)
    np.testing.assert_allclose(found, np.fft.rfft(X), rtol=1e-5, atol=1e-5)


def test_what_stays_behind_is_named() -> None:
    total = dtensor.DVariable(copy_to_mesh(V, LAYOUTS[1]))

    def add(x: Any) -> Any:
        return total.assign_add(x)

    def show(x: Any) -> Any:
        jax.debug.print("{}", x[0])
        return x

    for fn, message in ((add, "add on mesh.* uses variables"), (show, "show .* calls Python func")):
        program = jit(fn, in_layouts=LAYOUTS[1]).lower(V).compile()
        with pytest.raises(CompileError, match=message):
            pickle.dumps(program)
        with pytest.raises(CompileError, match=message):
            program.export()


SCRIPT = """
import os, pickle, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax, numpy as np
folder = sys.argv[1]
jax.config.update("jax_compilation_cache_dir", folder + "/cache")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
events = []
jax.monitoring.register_event_listener(lambda event, **rest: events.append(event))
import dtensor
from dtensor.compiler import driver
passes, planned = driver.compile_module, []
driver.compile_module = lambda **given: planned.append(given["options"]) or passes(**given)
mesh = dtensor.create_mesh([("x", 2), ("y", 4)])

def product(a, b):
    return a @ b

layouts = dtensor.Layout([None, "y"], mesh), dtensor.Layout(["y", None], mesh)
a, b = np.ones((2, 8), np.float32), np.ones((8, 3), np.float32)
found = dtensor.jit(product, in_layouts=layouts)(a, b)
if os.path.exists(folder + "/program"):
    with open(folder + "/program", "rb") as file:
        found = pickle.load(file)(a, b)
else:
    with open(folder + "/program", "wb") as file:
        pickle.dump(dtensor.jit(product, in_layouts=layouts).lower(a, b).compile(), file)
assert found.to_jax()[1, 2] == 8
print(events.count("/jax/compilation_cache/cache_misses") == 0)
print(events.count("/jax/compilation_cache/cache_hits") >= 2)
for options in (None, dtensor.CompileOptions(effort="fast")):
    step = dtensor.jit(product, in_layouts=layouts, options=options)
    assert [c.kind for c in step.lower(a, b).compile().collectives] == ["all_reduce"]
print(len(planned))
"""


def test_another_process_finds_programs_and_plans_in_the_cache(tmp_path: Path) -> None:
    printed = []
    for seed in "12":  # of the hashes of strings
        command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        printed.append(subprocess.check_output(command, env=env, text=True).split())
    assert printed[0][0] == "False"
    assert printed[0][2] == "4"  # plans: from three lines, and with two efforts
    assert printed[1] == ["True", "True", "0"]


READER = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    array, program = pickle.load(file)
assert "dtensor.compiler.eager.calls" not in sys.modules
assert float((program(array) + array)[1].sum()) == 22 * 3, "operations of what was unpickled"
"""


def test_what_was_unpickled_runs_operations_in_a_process_that_has_done_nothing_else(
    tmp_path: Path,
) -> None:
    array = copy_to_mesh(np.arange(24, dtype=np.float32).reshape(6, 4), LAYOUTS[0]["w"])
    program = jit(lambda x: x * 2).lower(array).compile()
    (tmp_path / "both").write_bytes(pickle.dumps((array, program)))
    command = [sys.executable, "-c", READER, str(tmp_path / "both")]
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    subprocess.run(command, env=env, check=True, timeout=300)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = [getattr(jax.config, name) for name in names]
    for name, value in zip(names, (str(tmp_path), 0), strict=True):
        jax.config.update(name, value)
    yield tmp_path
    for name, value in zip(names, before, strict=True):
        jax.config.update(name, value)


def test_a_plan_is_kept_by_all_that_it_depends_on(cache: Path) -> None:
    given = {"layouts": LAYOUTS[1:], "cost": dtensor.CostModel(), "text": b"x", "none": None}
    number = count(1)

    def plan(**others: Any) -> Any:
        return kept_plan({**given, **others}, lambda: [next(number)])

    assert plan() == plan() == [1]
    assert plan(text="x") == [2]
    assert plan(layouts=(Layout(["x"], MESH),)) == [3]
    assert plan(layouts=(Layout(["y"], dtensor.create_mesh([("y", 4)])),)) == [4]
    with pytest.raises(TypeError, match="a plan depends on <object"):
        plan(text=object())
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1)
    assert [plan(text=b"y") for _ in "12"] == [[5], [6]]  # made sooner than is kept
    assert plan() == [1]
    plans = list(cache.glob("dtensor-plan-*"))
    assert len(plans) == 4
    for file in plans:
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=f"{cache} has a damaged plan, .*; delete that file"):
        assert plan() == [7]


def test_layouts_that_were_found_are_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for _ in "12":
        found.append(dtensor.auto_layouts(jnp.matmul, X, X.T, mesh=MESH))
        assert len(list(cache.glob("dtensor-plan-*"))) == 1
        monkeypatch.setattr("dtensor.compiler.auto_layouts.plan_arguments", None)
    assert found[0].in_layouts == found[1].in_layouts
    assert (found[0].cost, found[0].bound) == (found[1].cost, found[1].bound)
    with pytest.raises(TypeError, match="not callable"):
        dtensor.auto_layouts(jnp.matmul, X, X.T, mesh=MESH, max_bytes_per_device=200)


def test_a_cache_that_cannot_be_used_is_a_warning(cache: Path) -> None:
    (cache / "file").touch()
    jax.config.update("jax_compilation_cache_dir", str(cache / "file"))
    with pytest.warns(UserWarning, match="file cannot be read: .*File exists"):
        assert kept_plan({}, lambda: [1]) == [1]
