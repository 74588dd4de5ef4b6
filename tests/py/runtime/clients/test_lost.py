"""Clients that never come, that are killed, that fail, that end too early: all others end too."""

import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from dtensor.runtime.clients.environment import PEER_LOST
from dtensor.runtime.clients.losses import HEARTBEAT_SECONDS
from tests.py.runtime.clients.launching import (
    PROGRAMS,
    Ended,
    addresses,
    run_at_once,
    run_clients,
    variables,
)

pytestmark = pytest.mark.slow

ABORTED = -6  # jax's own end
# docs/multi-client.md says 15 s, which a machine that is busy with other tests may not keep to.
LIMIT_SECONDS = HEARTBEAT_SECONDS + 20.0
# What becomes of which client, and how many there are.
RUNS = {"killed 2": 3, "killed 0": 3, "stopped 0": 3, "holding 1": 2, "forking 1": 2}
LEADER = r"Either the leader task was preempted/died/restarted"  # which is client 0


def lost_at(client: Ended) -> float:
    return float(re.findall(r"^\d+\.\d+$", client.out, re.MULTILINE)[-1])


def check_others(
    ended: dict[int, Ended], lost: int, said: str, wait: float = 0.0, statuses: Sequence[int] = ()
) -> None:
    moment = lost_at(ended[lost])
    for number, client in ended.items():
        assert "not reached" not in client.out
        if number != lost:
            assert client.status in (statuses or (PEER_LOST,)), client.err
            assert re.search(said, client.err), client.err
            assert client.at - moment < wait + LIMIT_SECONDS


def test_a_lost_client_ends_the_others_and_a_busy_one_does_not() -> None:
    """Several runs at once: most of their time they wait for heartbeats."""
    jobs = {name: addresses(count) for name, count in RUNS.items()}
    runs = run_at_once("losing.py", {name: (name.split(), each) for name, each in jobs.items()})

    killed = runs["killed 2"]
    assert killed[2].status == -9
    check_others(killed, 2, r"Task 2 heartbeat timeout|heartbeats\):\s2", statuses=[ABORTED])

    own = r"dtensor: client \d \(.*\) ends, because client 0 \({}\) is lost: it "
    # jax and dtensor notice at once that client 0 is killed, and one of them is first.
    first = own.format(jobs["killed 0"][0]) + f"was killed|{LEADER}"
    check_others(runs["killed 0"], 0, first, statuses=[PEER_LOST, ABORTED])
    silent = own.format(jobs["stopped 0"][0]) + "left 2 questions in a row open\n"
    check_others(runs["stopped 0"], 0, silent)

    assert runs["forking 1"][1].err.count("AssertionError") == 1
    for client in (*runs["holding 1"].values(), *runs["forking 1"].values()):
        assert client.status == 0, client.err
        assert client.out.endswith("all came back\n")


def test_dtensor_launch_says_who_was_first_and_stops_all() -> None:
    done = subprocess.run(
        [
            *[sys.executable, "-m", "dtensor.tools.dtensor_launch", "-n", "3", "--timeout", "200"],
            *["--devices-per-client", "2", str(PROGRAMS / "losing.py"), "killed", "1"],
        ],
        env=variables(1),
        capture_output=True,
        text=True,
        check=False,
        timeout=260,
    )
    assert done.returncode == 128 + 9, done.stderr
    assert "dtensor-launch: client 1 was killed by SIGKILL; stopping the others" in done.stderr
    assert re.search(r"^\[1\] \d+\.\d+$", done.stdout, re.MULTILINE)


def test_when_one_fails_the_others_end_and_say_why() -> None:
    jobs = addresses(3)
    ended = run_clients("losing.py", "failing", "1", jobs=jobs)
    assert ended[1].status == 1
    assert ended[1].err.endswith("ValueError: the batch is empty\n")
    check_others(
        ended, 1, rf"client 1 \({jobs[1]}\) is lost: it failed with ValueError: the batch is empty"
    )


def test_when_one_exits_with_a_status_the_others_end_and_say_which() -> None:
    jobs = addresses(2)
    ended = run_clients("losing.py", "exiting", "1", jobs=jobs)
    assert ended[1].status == 1
    assert ended[1].err.endswith("no data\n")
    check_others(
        ended, 1, rf"client 1 \({jobs[1]}\) is lost: it failed with exit status 1: no data"
    )


def test_when_one_waits_at_its_end_for_one_in_a_collective_both_say_so() -> None:
    jobs, more = addresses(2), {"DTENSOR_CLIENT_TIMEOUT_SECONDS": "16"}
    ended = run_clients("losing.py", "leaving", "1", jobs=jobs, more=more)
    wait = "ended clients wait 16 s for the others; all clients must call the same programs"
    at_end = f"client 1 ({jobs[1]}) has ended and waits for client 0 ({jobs[0]}); {wait}"
    assert ended[1].err.count(f"dtensor: {at_end}") == 1, ended[1].err
    lines = (PROGRAMS / "losing.py").read_text().splitlines()
    line = next(i for i, line in enumerate(lines, 1) if "waits inside a collective" in line)
    inside = f"losing.py:{line} for 10 s, and client 1 ({jobs[1]}) ended before it; {wait}"
    assert ended[0].err.count(inside) == 1, ended[0].err


def test_when_one_ends_too_early_those_in_a_collective_end_after_the_timeout() -> None:
    ended = run_clients(
        "losing.py", "leaving", "1", jobs=addresses(2), more={"DTENSOR_CLIENT_TIMEOUT_SECONDS": "5"}
    )
    said = r"Barrier timed out\. Id: Shutdown(.|\n)*The first task at the barrier: 1"
    check_others(ended, 1, said, 5, statuses=[ABORTED])


def test_when_one_ends_too_early_those_at_a_barrier_hear_it() -> None:
    jobs = addresses(2)
    ended = run_clients("losing.py", "leaving", "0", jobs=jobs)
    assert ended[1].status == 1
    assert f"ClientError: client 0 ({jobs[0]}) ended before the barrier" in ended[1].err
    assert ended[1].at - lost_at(ended[0]) < LIMIT_SECONDS


@pytest.mark.parametrize("missing", [0, 2])
def test_a_client_that_never_comes_is_named_by_the_others(missing: int) -> None:
    jobs = addresses(3)
    ended = run_clients(
        "losing.py",
        "killed",
        "0",
        jobs=jobs,
        only=[number for number in range(3) if number != missing],
        more={"DTENSOR_CLIENT_TIMEOUT_SECONDS": "5"},
    )
    for number, client in ended.items():
        assert client.status == 1, client.err
        last = client.err.splitlines()[-1]
        rest = "start all 3 clients, or set DTENSOR_CLIENT_TIMEOUT_SECONDS to wait longer"
        said = f"client 2 ({jobs[2]}) did not come within 5 s; {rest}"
        if missing == 0:
            found = f"client {number} ({jobs[number]}) did not find client 0 ({jobs[0]})"
            said = f"{found} within 5 s; {rest}"
        assert last == f"dtensor.dialect.errors.ClientError: {said}"


def test_clients_with_other_settings_do_not_start_and_all_hear_why() -> None:
    own, jobs = {1: {"DTENSOR_JOB_NAME": "odd"}}, addresses(2)
    ended = run_clients("losing.py", "killed", "0", jobs=jobs, own=own)
    for client in ended.values():
        assert client.status == 1
        assert client.err.splitlines()[-1] == (
            "dtensor.dialect.errors.ClientError: the clients differ in DTENSOR_JOB_NAME: "
            f"worker on client 0; odd on client 1 ({jobs[1]}); all clients must have the same"
        )
