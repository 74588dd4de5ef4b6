"""Starting and stopping the accelerator system in local mode; several clients are in clients/."""

import subprocess
from pathlib import Path
from typing import Any

import jax
import pytest

from dtensor.dialect.errors import ConfigError, NotFoundError
from dtensor.runtime.clients import accelerators, config, environment
from dtensor.runtime.clients.accelerators import (
    initialize_accelerator_system,
    shutdown_accelerator_system,
)
from tests.py import fresh

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def uninitialized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts as if nobody had called; jax runs, with 8 CPU devices."""
    jax.devices()
    monkeypatch.setattr(config, "chosen", None)


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"JAX_PLATFORMS": "cpu", "PATH": "", "PYTHONPATH": str(ROOT), **variables}
    return fresh.run(["-c", code], env=environment, timeout=60)


def test_the_best_device_type_is_chosen() -> None:
    assert config.chosen is None
    assert initialize_accelerator_system() == "CPU"
    assert config.chosen == "CPU"
    assert config.default_device_type() == "CPU"


def test_a_given_type_may_be_in_small_letters() -> None:
    assert initialize_accelerator_system("cpu", num_logical_cpu_devices=8) == "CPU"


def test_a_second_call_for_what_there_is_does_nothing() -> None:
    initialize_accelerator_system("CPU", num_logical_cpu_devices=8)
    kept = jax.numpy.ones(3)
    for given in ((), ("CPU",), ("cpu", True, 8)):
        assert initialize_accelerator_system(*given) == "CPU"
    assert not kept.is_deleted()


@pytest.mark.parametrize("given", [("GPU",), ("CPU", True, 4), ("CPU", True, 8, True)])
def test_a_second_call_for_something_else_is_an_error(given: tuple[Any, ...]) -> None:
    initialize_accelerator_system("CPU")
    found = r"already been initialized, for CPU with 8 devices here; .* dtensor\.shut"
    with pytest.raises(ConfigError, match=found):
        initialize_accelerator_system(*given)


def test_stopping_what_does_not_run_is_an_error() -> None:
    with pytest.raises(ConfigError, match="accelerator system is not initialized; call dtensor"):
        shutdown_accelerator_system()


@pytest.mark.parametrize("device_type", ["NPU", "", 7])
def test_an_unknown_type_is_an_error(device_type: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown device type .*; it is one of CPU, GPU, TPU"):
        initialize_accelerator_system(device_type)
    assert config.chosen is None


@pytest.mark.parametrize("device_type", ["TPU", "GPU"])
def test_an_absent_accelerator_is_not_found(device_type: str) -> None:
    with pytest.raises(NotFoundError, match=rf"jax has no {device_type} device; it has 8 CPU\. In"):
        initialize_accelerator_system(device_type)
    assert config.chosen is None


@pytest.mark.parametrize("platforms", ["cuda", "nonsense", "CPU"])
def test_platforms_that_are_not_here_are_one_error(platforms: str) -> None:
    code = f"""
import dtensor, jax
jax.config.update("jax_platforms", {platforms!r})
def plan():
    x = jax.ShapeDtypeStruct((8,), "float32")
    return dtensor.jit(lambda x: x, mesh=dtensor.Mesh.abstract([("x", 2)])).lower(x)
mesh = lambda: dtensor.create_mesh([("x", 1)])
choose = dtensor.initialize_accelerator_system
for call in (choose, lambda: choose("CPU"), mesh, plan, dtensor.preferred_device_type):
    try:
        call()
    except dtensor.NotFoundError as error:
        print(str(error).partition(" (")[0].partition(";")[0])
"""
    printed = run_python(code).stdout.splitlines()
    assert printed == [f"jax finds no device with JAX_PLATFORMS={platforms}"] * 5


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "4"])
def test_a_malformed_number_of_cpu_devices_is_an_error(count: int) -> None:
    with pytest.raises(ConfigError, match=r"num_logical_cpu_devices is .*; it must be a positive"):
        initialize_accelerator_system("CPU", num_logical_cpu_devices=count)


def test_more_cpu_devices_than_jax_runs_with_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"4,096 logical CPU .* at most 2,048 in a process"):
        initialize_accelerator_system("CPU", num_logical_cpu_devices=4096)
    with pytest.raises(ConfigError, match="9 logical CPU devices were asked for, but jax already"):
        initialize_accelerator_system("CPU", num_logical_cpu_devices=9)


def test_clients_cannot_do_without_the_coordination_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert initialize_accelerator_system("CPU", enable_coordination_service=False) == "CPU"
    monkeypatch.setattr(config, "chosen", None)
    monkeypatch.setenv("DTENSOR_JOBS", "a:1,b:2")
    with pytest.raises(ConfigError, match="enable_coordination_service=False, but there are 2 cl"):
        initialize_accelerator_system("CPU", enable_coordination_service=False)


def test_clients_cannot_connect_when_jax_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", "a:1,b:2")
    with pytest.raises(ConfigError, match="jax already runs without the other clients"):
        initialize_accelerator_system("CPU")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DTENSOR_CLIENT_TIMEOUT_SECONDS", "-3"),
        ("DTENSOR_ENABLE_HEARTBEAT", "maybe"),
        ("DTENSOR_JOB_NAME", "a/b"),
        ("DTENSOR_USE_PARALLEL_EXECUTOR", "pw"),
    ],
)
def test_a_malformed_variable_is_an_error_also_where_one_client_needs_none(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"environment variable {name} is '{value}': it "):
        initialize_accelerator_system("CPU")
    assert config.chosen is None


def test_a_list_of_one_client_is_local_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", "nowhere.invalid:1")
    assert initialize_accelerator_system("CPU") == "CPU"
    assert environment.full_job_name() == "localhost/replica:0/task:0"


def test_the_aliases_are_the_same_functions() -> None:
    assert accelerators.initialize_multi_client is initialize_accelerator_system
    assert accelerators.initialize_tpu_system is initialize_accelerator_system
    assert accelerators.shutdown_tpu_system is shutdown_accelerator_system


FRESH = """
import dtensor, jax
from dtensor.dialect.errors import ClientError, ConfigError
from dtensor.runtime.clients import config, environment
from dtensor.runtime.clients.accelerators import initialize_accelerator_system as initialize
from dtensor.runtime.clients.accelerators import shutdown_accelerator_system as shutdown

def made(size):
    mesh = dtensor.create_mesh([('x', size)])
    tensor = dtensor.copy_to_mesh(range(size), dtensor.Layout(['x'], mesh))
    print(len(dtensor.jit(lambda a: a + 1)(tensor).unpack()), mesh.local_devices()[-1])

print(config.num_local_devices('CPU'))
initialize('CPU', num_logical_cpu_devices=6)
made(6)
shutdown()
initialize(num_logical_cpu_devices=3)
made(3)
shutdown()
jax.devices()
initialize('CPU')
shutdown()
print(len(jax.devices()))
try:
    initialize('CPU', num_logical_cpu_devices=4)
except ConfigError:
    initialize('CPU', num_logical_cpu_devices=4, experimental_reset_context=True)
made(4)
"""


@pytest.mark.slow
def test_starting_anew_with_another_number_of_devices() -> None:
    done = run_python(FRESH, XLA_FLAGS="--xla_force_host_platform_device_count=5")
    cpu = "/job:localhost/replica:0/task:0/device:CPU:"
    expected = f"5\n6 {cpu}5\n3 {cpu}2\n3\n4 {cpu}3\n"
    assert done.stdout == expected, done.stderr
    assert not done.stderr


ASKING = [
    "dtensor.preferred_device_type()",
    "dtensor.num_local_devices('GPU')",
    "dtensor.local_devices('TPU')",
    "refused(lambda: dtensor.initialize_accelerator_system('TPU', num_logical_cpu_devices=8))",
    "refused(dtensor.tpu.initialize_tpu_system)",
]


@pytest.mark.parametrize("question", ASKING)
def test_asking_what_there_is_settles_nothing(question: str) -> None:
    code = f"""
import dtensor

def refused(call):
    try:
        call()
    except dtensor.NotFoundError:
        return
    raise AssertionError

{question}
dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=4)
print(dtensor.num_local_devices("CPU"))
"""
    done = run_python(code)
    assert done.stdout == "4\n", done.stderr


def test_fewer_cpu_devices_than_jax_runs_with_are_refused() -> None:
    with pytest.raises(ConfigError, match="4 logical CPU devices were asked for, but jax already"):
        initialize_accelerator_system("CPU", num_logical_cpu_devices=4)


RESTARTED = """
import numpy as np
import dtensor

double = dtensor.jit(lambda x: x * 2)
for _ in range(2):
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=4)
    layout = dtensor.Layout(["x"], dtensor.create_mesh([("x", 4)]))
    print(double(dtensor.copy_to_mesh(np.arange(8), layout)).unpack()[3])
    print(dtensor.copy_to_mesh(np.arange(5), layout).to_jax())
    dtensor.barrier(layout.mesh)
    dtensor.shutdown_accelerator_system()
"""


def test_a_function_is_compiled_again_after_a_restart() -> None:
    """So is what the package compiles for itself."""
    done = run_python(RESTARTED)
    assert done.stdout == "[12 14]\n[0 1 2 3 4]\n" * 2, done.stderr


KEPT = """
import numpy as np
import dtensor

def begin():
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=4)
    return dtensor.Layout(["x"], dtensor.create_mesh([("x", 4)]))

def tried(call):
    try:
        print(call())
    except (RuntimeError, dtensor.MeshError) as error:
        print(str(error).split(":")[0])

layout, host = begin(), np.ones(8, np.float32)
x = dtensor.copy_to_mesh(host, layout)
v, compiled = dtensor.DVariable(x), dtensor.jit(lambda x: x * 2).lower(x).compile()
dtensor.shutdown_accelerator_system()
begin()
y = dtensor.copy_to_mesh(host, layout)
for call in (lambda: x + y, lambda: v + 1, lambda: compiled(host).unpack(), lambda: float(y.sum())):
    tried(call)
"""


def test_what_is_kept_over_a_restart_is_refused() -> None:
    """XLA ended the process: a program of the new devices got buffers of the old ones."""
    done = run_python(KEPT)
    refused, lost, old, works = done.stdout.splitlines()
    assert refused == "argument x of x + y is deleted", done.stderr
    assert lost == "the value of variable 'Variable' is lost"
    assert old.startswith("the array lies on devices of before jax started anew")
    assert works == "8.0"
