"""Programs that leave their process: pickled, exported, and found in jax's compilation cache."""

import os
import pickle
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
from dtensor.runtime.placement import jax_mesh
from tests.py import fresh

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
"""


def test_another_process_finds_the_program_in_the_cache(tmp_path: Path) -> None:
    words = ["-c", SCRIPT, str(tmp_path)]
    printed = [fresh.run(words, env=os.environ).stdout for _ in "12"]
    assert printed[1] == "True\nTrue\n"
    assert printed[0].startswith("False\n")
