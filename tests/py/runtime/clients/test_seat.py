"""A process's place among several clients, as launchers say it in its environment."""

import warnings
from collections.abc import Iterator

import pytest
from jax._src.clusters import ClusterEnv

from dtensor.dialect.errors import ConfigError
from dtensor.runtime.clients import coordination, environment
from dtensor.runtime.clients.environment import Seat

SLURM = {
    "SLURM_JOB_ID": "4100",
    "SLURM_STEP_NODELIST": "node[007-9],other",
    "SLURM_NTASKS": "6",
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "1",
}
TORCHRUN = {"MASTER_ADDR": "host", "MASTER_PORT": "29500", "RANK": "2", "WORLD_SIZE": "3"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    names = ["DTENSOR_JOBS", "DTENSOR_CLIENT_ID", "DTENSOR_NUM_CLIENTS", "LOCAL_RANK", *TORCHRUN]
    for name in [*names, *SLURM, "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE"]:
        monkeypatch.delenv(name, raising=False)
    environment._detected.cache_clear()
    yield
    environment._detected.cache_clear()


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_slurm_says_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.seat() is None
    environment._detected.cache_clear()
    set_all(monkeypatch, SLURM)
    found = environment.seat()
    # jax makes the port of the job's number.
    assert found == Seat("node007:61444", 6, 4, "the cluster's variables", (1,))
    assert (environment.num_clients(), environment.client_id(), environment.job_name()) == (
        6,
        4,
        "worker",
    )
    assert environment.full_job_name() == "worker/replica:0/task:4"
    assert environment.client_name(5) == "client 5"


def test_torchruns_variables_go_before_the_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {**SLURM, **TORCHRUN})
    seat = Seat("host:29500", 3, 2, "MASTER_ADDR, MASTER_PORT and RANK")
    assert environment.seat() == seat
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")  # it listens there itself
    set_all(monkeypatch, {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "3"})
    assert environment.seat() == Seat("host:29501", 3, 2, seat.source, (2,))


def test_dtensors_own_go_before_all(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {**SLURM, **TORCHRUN})
    set_all(monkeypatch, {"DTENSOR_JOBS": "a:1,b:2", "DTENSOR_CLIENT_ID": "1"})
    assert environment.seat() == Seat("a:1", 2, 1, "DTENSOR_JOBS")
    monkeypatch.setenv("DTENSOR_JOBS", "a:1")
    monkeypatch.setenv("DTENSOR_CLIENT_ID", "0")
    assert environment.seat() is None
    assert environment.num_clients() == 1


def test_one_process_of_a_launcher_can_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {**SLURM, "DTENSOR_NUM_CLIENTS": "1"})
    assert environment.seat() is None
    assert (environment.num_clients(), environment.client_id(), environment.job_name()) == (
        1,
        0,
        "localhost",
    )
    monkeypatch.setenv("DTENSOR_NUM_CLIENTS", "2")
    with pytest.raises(
        ConfigError, match="DTENSOR_NUM_CLIENTS is '2': the launcher, without DTENSOR_JOBS, says 6"
    ):
        environment.num_clients()


def test_a_launcher_of_one_process_is_local_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {**TORCHRUN, "WORLD_SIZE": "1", "RANK": "0"})
    assert environment.seat() is None
    assert environment.num_clients() == 1


def test_half_of_torchruns_variables_are_no_run_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "host"})
    with pytest.raises(ConfigError, match=r"WORLD_SIZE is '2': RANK .* but not MASTER_PORT; set"):
        environment.seat()
    monkeypatch.setenv("DTENSOR_NUM_CLIENTS", "1")
    assert environment.seat() is None
    monkeypatch.delenv("DTENSOR_NUM_CLIENTS")
    monkeypatch.setattr(coordination, "jax_process", lambda: (0, 2))  # the program has connected
    assert environment.seat() is None


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("RANK", "3", "it must be below 3, which is WORLD_SIZE"),
        ("RANK", "x", "it must be an integer"),
        ("WORLD_SIZE", "0", "it must be at least 1"),
        ("MASTER_PORT", "0", "it must be at least 1"),
        ("DTENSOR_CLIENT_ID", "1", "the launcher says this is process 2"),
    ],
)
def test_malformed_variables(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, problem: str
) -> None:
    set_all(monkeypatch, {**TORCHRUN, name: value})
    with pytest.raises(ConfigError, match=f"environment variable {name} is '{value}': {problem}"):
        environment.client_id()


def test_a_cluster_that_cannot_be_asked_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*unknown: object) -> None:
        raise RuntimeError("Kubernetes API Error: 403 - Forbidden")

    monkeypatch.setattr(ClusterEnv, "auto_detect_unset_distributed_params", refuse)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.warns(RuntimeWarning, match="it is a run of one client: Kubernetes API Error: 403"):
        assert environment.num_clients() == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert environment.num_clients() == 1  # it was said


@pytest.mark.parametrize(
    ("name", "meant"),
    [("DTENSOR_JOB", "JOBS"), ("DTENSOR_CLIENTID", "CLIENT_ID"), ("DTENSOR_NUM_CLIENT", "")],
)
def test_a_name_that_is_nearly_a_variable_is_refused(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTENSOR_ENABLE_CHECKPOINT_V2", "1")  # TensorFlow's
    monkeypatch.setenv("DTENSOR_PROGRESS", "0")
    environment.refuse_misspelt()
    monkeypatch.setenv(name, "1")
    meant = meant or "NUM_CLIENTS"
    with pytest.raises(ConfigError, match=f"{name} is no variable .* mean DTENSOR_{meant}. Unset"):
        environment.refuse_misspelt()
