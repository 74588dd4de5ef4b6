"""Programs of several clients must be the same: two processes that jax itself connected."""

import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dtensor.dialect.errors import ClientError
from dtensor.runtime.clients import agreement, coordination
from dtensor.runtime.clients.agreement import agree, exchange
from tests.py.runtime.clients.launching import run_jax_processes

CHILD = Path(__file__).with_name("two_processes.py")


@pytest.mark.slow
def test_two_processes_run_one_program() -> None:
    for process in run_jax_processes(CHILD, "same").values():
        assert process.status == 0, process.err
        assert "right" in process.out


@pytest.mark.slow
def test_different_programs_are_an_error_on_every_process() -> None:
    for process in run_jax_processes(CHILD, "different").values():
        said = "ClientError: the clients differ in program 0: "
        assert said in process.err, process.err


class Store(dict[str, str]):
    """Jax's key-value store, in which another client has written already."""

    key_value_set = dict.__setitem__
    key_value_delete = dict.__delitem__

    def key_value_dir_get(self, prefix: str) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self.items() if key.startswith(prefix)]


def test_what_everybody_has_read_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    monkeypatch.setattr(agreement, "_counts", Counter())
    monkeypatch.setattr(coordination, "store", lambda: nullcontext(store))
    for number in range(5):
        assert exchange("meeting", [0], "here") == (number, {0: "here"})
    kept = [f"dtensor/meeting/all/{key}" for key in ("3/0", "4/0", "outcome/3", "outcome/4")]
    assert sorted(store) == kept


def test_equal_facts_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, {0: {"the name": "a"}, 1: {"the name": "a"}})
    agree("mesh", [0, 1], {"the name": "a"}, "")


def test_the_error_names_the_odd_client_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_JOBS", "a:1,b:2,c:3,d:4")
    names = {0: "a", 1: "a", 2: "b", 3: "a"}
    told(monkeypatch, {n: {"size": "1", "name of mesh {}": a} for n, a in names.items()})
    with pytest.raises(ClientError) as error:
        agree("mesh", range(4), {"size": "1", "name of mesh {}": "a"}, "name it alike")
    assert str(error.value) == (
        "the clients differ in name of mesh 5: a on clients 0, 1, 3; b on client 2 (c:3); name it "
        "alike"
    )


def test_what_may_cause_the_difference_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, x64 = ("1", "1", "2"), ("True", "False", "False")
    told(monkeypatch, {n: {"program {}": programs[n], "x64": x64[n]} for n in range(3)})
    with pytest.raises(ClientError) as error:
        agree("program", range(3), {"program {}": "1"}, "call alike", {"x64": "True"})
    assert str(error.value) == (
        "the clients differ in x64: False on clients 1, 2; True on client 0; so program 5 differs; "
        "give all the same"
    )
    told(monkeypatch, {n: {"program {}": "1", "x64": x64[n]} for n in range(3)})
    agree("program", range(3), {"program {}": "1"}, "call alike", {"x64": "True"})


def told(monkeypatch: pytest.MonkeyPatch, said: dict[int, Any]) -> None:
    texts = {client: json.dumps(message) for client, message in said.items()}
    monkeypatch.setattr(agreement, "exchange", lambda what, clients, value: (5, texts))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({2: "x", 0: "y", 1: "x"}, "x on clients 1, 2; y on client 0;"),
        ({3: "x", 0: "y"}, "y on client 0; x on client 3;"),
    ],
)
def test_who_has_what_is_said_most_common_first(values: dict[int, str], said: str) -> None:
    with pytest.raises(ClientError, match=said):
        agreement._same(values, "", "")
