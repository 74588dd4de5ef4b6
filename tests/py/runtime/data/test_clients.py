"""Two clients of four devices each: each reads its part, and together they get the same batches."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtensor.runtime.placement import jax_mesh
from tests.py.runtime.clients.launching import run_jax_processes
from tests.py.runtime.data.programs import cases
from tests.py.runtime.data.sources import images

PROGRAM = Path(__file__).parent / "programs" / "two_clients.py"


@dataclass(frozen=True)
class Clients:
    """What the clients printed and wrote: reads by client and case, shards by name."""

    reads: list[dict[str, Any]]
    shards: dict[str, np.ndarray[Any, Any]]
    held: list[set[str]]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    folder = tmp_path_factory.mktemp("clients")
    ended = run_jax_processes(PROGRAM, str(folder))
    for client in ended.values():
        assert client.status == 0, client.err
    files = [dict(np.load(folder / f"{client}.npz")) for client in range(2)]
    return Clients(
        [json.loads(client.out.splitlines()[-1]) for client in ended.values()],
        files[0] | files[1],
        [set(file) for file in files],
    )


@pytest.mark.parametrize("name", cases.CASES)
def test_two_clients_get_the_batches_of_one_process(clients: Clients, name: str) -> None:
    _, dataset = cases.CASES[name]()
    devices = list(jax_mesh(dataset.mesh).devices.flat)
    want = {}
    for number, batch in enumerate(dataset):
        for shard in batch.to_jax().addressable_shards:
            want[f"{name}/{number}/{devices.index(shard.device)}"] = np.asarray(shard.data)
    got = {key: value for key, value in clients.shards.items() if key.startswith(f"{name}/")}
    total = got.pop(f"{name}/sum")
    assert got.keys() == want.keys()
    for key, value in want.items():
        np.testing.assert_array_equal(got[key], value, err_msg=key)
    np.testing.assert_allclose(total, np.sum(np.asarray(batch.to_jax())), rtol=1e-6)
    for client in range(2):  # and half of the devices are each client's
        held = {int(key.split("/")[2]) for key in clients.held[client] & want.keys()}
        assert held == set(range(4 * client, 4 * client + 4))


def own(client: int, batches: int, rows: int = 8) -> list[int]:
    """The examples of a client that has half of each batch."""
    half = rows // 2
    starts = [rows * b + half * client for b in range(batches)]
    return [row for start in starts for row in range(start, start + half)]


def test_each_client_reads_its_own_examples(clients: Clients) -> None:
    for client, reads in enumerate(clients.reads):
        # The first one that each reads tells what they are.
        assert reads["items"] == reads["items ahead"] == [0, *own(client, 2)]
        rest = [16 + 2 * client, 17 + 2 * client]
        assert reads["items with a rest"] == [0, *own(client, 2), *rest]
        assert reads["items across"] == [0, *range(16)]  # each holds a part of every example


def test_each_client_reads_its_own_part_of_arrays(clients: Clients) -> None:
    for client, reads in enumerate(clients.reads):
        size = sum(np.prod([stop - start for start, stop in part]) for part in reads["array"])
        assert size == images(16).size / 2
        assert {row for part in reads["array"] for row in range(*part[0])} == set(own(client, 2))
        across = reads["array across"]
        assert {tuple(part[1]) for part in across} == {(2 * client, 2 * client + 2)}
        assert sum(np.prod([b - a for a, b in part]) for part in across) == images(16).size / 2


def test_of_batches_each_client_reads_those_of_its_replicas(clients: Clients) -> None:
    # The first element also tells how large they are.
    assert [reads["batches"] for reads in clients.reads] == [[0, 0, 2], [0, 1, 3]]


def test_an_iterable_is_read_whole_by_each_client(clients: Clients) -> None:
    for reads in clients.reads:
        assert reads["stream"] == 20
        assert reads["stream with a rest"] == 20
