"""The environment variables of a run, and the questions that depend on them."""

import jax
import pytest

from dtensor.dialect.errors import ConfigError
from dtensor.runtime.clients import config, environment

TWO = "host1:10000,host2:10003"
FOUR = "host1:10000,host1:10001,host2:10000,host2:10003"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JOBS", "CLIENT_ID", "JOB_NAME", "NUM_CLIENTS", "ENABLE_HEARTBEAT"):
        monkeypatch.delenv(f"DTENSOR_{name}", raising=False)
    monkeypatch.delenv("DTENSOR_CLIENT_TIMEOUT_SECONDS", raising=False)
    monkeypatch.delenv("DTENSOR_USE_PARALLEL_EXECUTOR", raising=False)


def test_without_variables_a_process_is_the_only_client() -> None:
    assert (environment.jobs(), environment.num_clients(), environment.client_id()) == ([], 1, 0)
    assert (environment.job_name(), environment.full_job_name()) == (
        "localhost",
        "localhost/replica:0/task:0",
    )
    assert environment.heartbeat_enabled()
    assert environment.client_timeout() == 300


def test_an_empty_variable_is_like_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JOBS", "CLIENT_ID", "JOB_NAME", "NUM_CLIENTS", "ENABLE_HEARTBEAT"):
        monkeypatch.setenv(f"DTENSOR_{name}", "")
    assert (environment.jobs(), environment.num_clients(), environment.client_id()) == ([], 1, 0)
    assert environment.job_name() == "localhost"
    assert environment.heartbeat_enabled()


def test_clients_are_those_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", FOUR)
    monkeypatch.setenv("DTENSOR_CLIENT_ID", "2")
    monkeypatch.setenv("DTENSOR_NUM_CLIENTS", "4")
    assert environment.jobs() == FOUR.split(",")
    assert (environment.num_clients(), environment.client_id(), environment.job_name()) == (
        4,
        2,
        "worker",
    )
    assert environment.full_job_name() == "worker/replica:0/task:2"
    assert environment.full_job_name(3) == "worker/replica:0/task:3"
    assert environment.client_names([0, 3]) == "client 0 (host1:10000), client 3 (host2:10003)"
    monkeypatch.setenv("DTENSOR_JOB_NAME", "train.a-1")
    assert environment.full_job_name(0) == "train.a-1/replica:0/task:0"


@pytest.mark.parametrize("jobs", ["[::1]:1", "a-b.example.com:65535,c:1"])
def test_forms_of_addresses(monkeypatch: pytest.MonkeyPatch, jobs: str) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", jobs)
    assert environment.jobs() == jobs.split(",")


@pytest.mark.parametrize(
    ("jobs", "problem"),
    [
        (",", "entry 0, '', is not host:port, without spaces and with a port of 1 to 65535"),
        ("a:1,", "entry 1, '', is not host:port"),
        ("a:1,,b:2", "entry 1, '', is not host:port"),
        (" ", "entry 0, ' ', is not host:port, without spaces"),
        ("a:1, b:2", "entry 1, ' b:2', is not host:port, without spaces"),
        ("a:1\n", "is not host:port, without spaces"),
        ("a", "entry 0, 'a', is not host:port"),
        (":1", "entry 0, ':1', is not host:port"),
        ("::1:5", "entry 0, '::1:5', is not host:port"),
        ("http://a:1", "entry 0, 'http://a:1', is not host:port"),
        ("a:", "entry 0, 'a:', is not host:port, without spaces and with a port"),
        ("a:x", "is not host:port"),
        ("a:0", "with a port of 1 to 65535"),
        ("a:65536", "with a port of 1 to 65535"),
        ("a:-1", "is not host:port"),
        ("a:1.5", "is not host:port"),
        ("a:\u0661", "is not host:port"),  # a digit, but not one of ours
        ("a:1,b:1,a:1", "'a:1' is there twice; every client needs its own port"),
        ("/bns/a/0,/bns/a/1", "entry 0, '/bns/a/0', is not host:port"),
    ],
)
def test_a_malformed_list_is_an_error_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, jobs: str, problem: str
) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", jobs)
    with pytest.raises(ConfigError) as error:
        environment.jobs()
    assert str(error.value).startswith(f"environment variable DTENSOR_JOBS is {jobs!r}: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "jobs", "problem"),
    [
        ("-1", "", "it must be at least 0"),
        ("abc", "", "it must be an integer"),
        ("1.0", TWO, "it must be an integer"),
        (" 1", TWO, "it must be an integer"),
        ("\u0661", TWO, "it must be an integer"),
        ("9" * 30, TWO, "it must be an integer"),
        ("1", "", "it must be below 1, how many DTENSOR_JOBS or a launcher says"),
        ("3", "a:1", "it must be below 1, how many DTENSOR_JOBS or a launcher says"),
        ("2", TWO, "it must be below 2, how many DTENSOR_JOBS or a launcher says"),
    ],
)
def test_a_malformed_id_is_an_error_that_shows_it(
    monkeypatch: pytest.MonkeyPatch, text: str, jobs: str, problem: str
) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", jobs)
    monkeypatch.setenv("DTENSOR_CLIENT_ID", text)
    with pytest.raises(ConfigError) as error:
        environment.client_id()
    assert str(error.value) == f"environment variable DTENSOR_CLIENT_ID is {text!r}: {problem}"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("NUM_CLIENTS", "3", "DTENSOR_JOBS says 2; leave DTENSOR_NUM_CLIENTS out"),
        ("NUM_CLIENTS", "0", "it must be at least 1"),
        ("NUM_CLIENTS", "two", "it must be an integer"),
        ("JOB_NAME", "a b", "it must be letters, digits"),
        ("JOB_NAME", "1a", "it must be letters, digits"),
        ("JOB_NAME", "a/task:1", "it must be letters, digits"),
        ("ENABLE_HEARTBEAT", "maybe", "it must be true or false"),
        ("ENABLE_HEARTBEAT", "2", "it must be true or false"),
        ("CLIENT_TIMEOUT_SECONDS", "0", "it must be a number of seconds above 0"),
        ("CLIENT_TIMEOUT_SECONDS", "-5", "it must be a number of seconds above 0"),
        ("CLIENT_TIMEOUT_SECONDS", "nan", "it must be a number of seconds above 0"),
        ("CLIENT_TIMEOUT_SECONDS", "inf", "it must be a number of seconds above 0"),
        ("CLIENT_TIMEOUT_SECONDS", "5s", "it must be a number of seconds above 0"),
        ("CLIENT_TIMEOUT_SECONDS", "9" * 400, "up to 1000000"),
    ],
)
def test_other_malformed_variables(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, problem: str
) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", TWO)
    monkeypatch.setenv(f"DTENSOR_{name}", text)
    question = {
        "NUM_CLIENTS": environment.num_clients,
        "JOB_NAME": environment.job_name,
        "ENABLE_HEARTBEAT": environment.heartbeat_enabled,
        "CLIENT_TIMEOUT_SECONDS": environment.client_timeout,
    }[name]
    with pytest.raises(ConfigError) as error:
        question()
    assert str(error.value).startswith(f"environment variable DTENSOR_{name} is {text!r}: ")
    assert problem in str(error.value)


def test_a_number_of_clients_without_a_list_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_NUM_CLIENTS", "2")
    with pytest.raises(ConfigError, match="the launcher, without DTENSOR_JOBS, says 1; leave"):
        environment.num_clients()


@pytest.mark.parametrize(
    ("text", "on"), [("FALSE", False), ("0", False), ("1", True), ("on", True)]
)
def test_the_heartbeat_can_be_switched(
    monkeypatch: pytest.MonkeyPatch, text: str, on: bool
) -> None:
    monkeypatch.setenv("DTENSOR_ENABLE_HEARTBEAT", text)
    assert environment.heartbeat_enabled() is on


def test_the_timeout_may_have_a_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_CLIENT_TIMEOUT_SECONDS", "2.5")
    assert environment.client_timeout() == 2.5


def test_clients_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="task_id is 1, but local mode has client 0 only"):
        environment.full_job_name(1)
    monkeypatch.setenv("DTENSOR_JOBS", TWO)
    with pytest.raises(ConfigError, match="task_id is -1, but there are 0 to 1"):
        environment.full_job_name(-1)
    with pytest.raises(ConfigError, match="task_id is True; it must be an integer"):
        environment.full_job_name(True)


def test_devices_of_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    jax.devices()
    names = [str(device) for device in config.local_devices("cpu")]
    assert names[0] == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert names[7] == "/job:localhost/replica:0/task:0/device:CPU:7"
    assert len(names) == config.num_local_devices("CPU") == config.num_global_devices("CPU") == 8
    assert config.num_local_devices("TPU") == config.num_global_devices("GPU") == 0
    assert config.local_devices("GPU") == []
    assert config.preferred_device_type() == config.default_device_type() == "CPU"
    monkeypatch.setenv("DTENSOR_JOB_NAME", "train")
    assert str(config.local_devices("CPU", 0)[1]) == "/job:train/replica:0/task:0/device:CPU:1"


@pytest.mark.parametrize("device_type", ["FOO", "", 3])
def test_unknown_device_types(device_type: str) -> None:
    for question in (config.local_devices, config.num_local_devices, config.num_global_devices):
        with pytest.raises(
            ConfigError, match=r"unknown device type .*; it is one of CPU, GPU, TPU"
        ):
            question(device_type)
    with pytest.raises(ConfigError, match="for_client_id is 1, but local mode has client 0 only"):
        config.local_devices("CPU", 1)


def test_devices_of_clients_that_are_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", TWO)
    monkeypatch.setattr("dtensor.runtime.clients.coordination.jax_is_running", lambda: False)
    with pytest.raises(ConfigError, match="the clients of DTENSOR_JOBS are not connected"):
        config.num_local_devices("CPU")


def test_flags_of_xla_that_every_client_may_have_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert environment.xla_flags() != ""
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=3 --xla_dump_to=/tmp/3")
    assert environment.xla_flags() == "none"
    monkeypatch.setenv("XLA_FLAGS", "--xla_b=1 --xla_dump_to=/tmp/3 --xla_a=2")
    assert environment.xla_flags() == "--xla_a=2 --xla_b=1"
