"""Clients of several machines, where a machine's own name is that of its loopback."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dtensor.runtime.clients import reaching
from dtensor.runtime.clients.reaching import address_for_others
from tests.py.runtime.clients.launching import PROGRAMS, addresses, run_clients, variables

# Two network namespaces with a cable between them. Each machine calls itself localhost, and only
# the first sees the folder. Where users may have namespaces of their own this needs no root.
MACHINES = """
set -e
hostname localhost
unshare --net --mount sleep 300 & OTHER=$!
trap 'kill $OTHER' EXIT
until [ "$(readlink /proc/$OTHER/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
on() { nsenter --net=/proc/$OTHER/ns/net --mount=/proc/$OTHER/ns/mnt "$@"; }
ip link add cable0 type veth peer name cable1
ip link set cable1 netns $OTHER
ip address add 10.9.8.1/24 dev cable0
on ip address add 10.9.8.2/24 dev cable1
for device in lo cable0; do ip link set $device up; done
for device in lo cable1; do on ip link set $device up; done
on mount -t tmpfs none "$FOLDER"
[ $# -gt 0 ] || exit 0
"$@" --address $FIRST_IS:7777 --node-rank 0 $PROGRAM & FIRST=$!
on "$@" --address 10.9.8.1:7777 --node-rank 1 $PROGRAM
wait $FIRST
"""
AWAY = "192.0.2.7"  # nobody's address


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.0.1", "[::1]"])
def test_clients_of_one_machine_stay_on_its_loopback(host: str) -> None:
    assert address_for_others([host] * 2, "localhost") is None


def test_a_name_that_others_can_use_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "_addresses", lambda host: iter([AWAY]))
    assert address_for_others(["10.1.2.3"], "node7") is None


@pytest.mark.parametrize(
    ("own", "ways", "expected"),
    [
        ({"node7": ["127.0.1.1"], "node0": ["10.0.0.1"]}, {"10.0.0.1": "10.0.0.7"}, "10.0.0.7"),
        ({"node0": ["fd00::1"]}, {"fd00::1": "fd00::7"}, "fd00::7"),  # no name of its own at all
        ({"node7": ["::1", "127.0.1.1"], "node0": ["127.0.1.1"]}, {}, "10.0.0.9"),  # client 0
        ({"node7": ["127.0.1.1"], "node0": []}, {}, "10.0.0.9"),
    ],
)
def test_the_address_is_the_one_on_the_way_to_client_0(
    own: dict[str, list[str]],
    ways: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = {"127.0.1.1": "127.0.0.1", reaching._ELSEWHERE: "10.0.0.9", **ways}
    monkeypatch.setattr(reaching, "_addresses", lambda host: iter(own.get(host, [])))
    monkeypatch.setattr(reaching, "_from", every.get)
    assert address_for_others(["node0"], "node7") == expected


def test_client_0_may_call_itself_localhost_where_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reaching, "_from", lambda to: "10.0.0.1" if to == "10.0.0.1" else None)
    hosts = ["localhost", "10.0.0.1"]
    assert address_for_others(hosts, "localhost") == "10.0.0.1"


def test_without_a_network_the_loopback_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "_from", lambda to: None)
    assert address_for_others(["node0.invalid"], "localhost") is None


def test_the_way_to_an_address_is_asked_of_the_kernel() -> None:
    assert reaching._from("127.0.0.1") == "127.0.0.1"
    assert reaching._from("256.0.0.1") is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_gloo_listens_where_it_is_told(tmp_path: Path) -> None:
    ended = run_clients("listening.py", "127.0.0.2", jobs=addresses(2), devices=1)
    for client in ended.values():
        assert client.status == 0, client.err
        assert "total 276.0" in client.out
        assert "listens at 127.0.0.2" in client.out, client.out


def machines(
    folder: Path, *command: str, program: str = "", first: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a launcher's command on each of two machines, or only make the machines."""
    words = ["unshare", "-Urnmu", "bash", "-c", MACHINES, "bash", *command]
    environment = {**variables(1), "PROGRAM": program, "FOLDER": str(folder), "FIRST_IS": first}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["10.9.8.1", "localhost"])  # as client 0 is told of itself
def test_two_machines_add_up_and_refuse_a_folder_that_only_one_sees(
    first: str, tmp_path: Path
) -> None:
    if shutil.which("unshare") is None or machines(tmp_path).returncode:
        pytest.skip("this machine makes no network namespaces")
    launch = "-m dtensor.tools.dtensor_launch -n 1 --nnodes 2".split()
    program = f"{PROGRAMS / 'apart.py'} {tmp_path}"
    ended = machines(tmp_path, sys.executable, *launch, program=program, first=first)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for client in (0, 1):
        assert f"[{client}] total 276.0 on 2 devices, save to a file system" in ended.stdout
