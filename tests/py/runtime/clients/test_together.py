"""Two and four clients of one run, as processes of this machine."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.py.runtime.clients.launching import ORBAX, addresses, run_clients
from tests.py.runtime.clients.programs import whole_step

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("clients", "devices"), [(2, 3), (4, 2)])
def test_clients_compute_together_what_one_process_does(clients: int, devices: int) -> None:
    ended = run_clients("together.py", jobs=addresses(clients), devices=devices)
    for client in ended.values():
        assert client.status == 0, client.err
        assert f"right CPU {clients}\n" in client.out
        assert "dtensor" not in client.err
    came, went = (
        [times(client.out, word) for client in ended.values()] for word in ("came", "went")
    )
    assert max(came) < min(went)  # nobody passed the barrier before all were there


def times(out: str, word: str) -> float:
    return float(re.findall(rf"^{word} (\d+\.\d+)$", out, re.MULTILINE)[0])


def test_operations_and_texts_on_several_clients_and_on_those_without_a_device() -> None:
    for client in run_clients("eagerly.py", jobs=addresses(2), devices=2).values():
        assert client.status == 0, client.err
        assert client.out.endswith("right\n")


def test_arrays_that_do_not_divide_over_two_clients_and_their_checkpoint(tmp_path: Path) -> None:
    jobs = addresses(2)
    ended = run_clients("uneven.py", str(tmp_path), jobs=jobs, devices=2, imports=ORBAX)
    for client in ended.values():
        assert client.status == 0, client.err
        assert client.out.endswith("right\n")


def test_clients_that_disagree_all_hear_who_is_the_odd_one(tmp_path: Path) -> None:
    jobs = addresses(4)
    ended = run_clients("disagreeing.py", str(tmp_path), jobs=jobs, devices=2)
    for client in ended.values():
        assert client.status == 0, client.err
        said = [line for line in client.out.splitlines() if line[1:3] == ": "]
        start, end = "the clients differ in", "all clients must ask for the same mesh"
        expected = [
            f"a: {start} the dimensions of distributed mesh 1: x=8 on clients 0, 1, 3; x=4 on "
            f"client 2 ({jobs[2]}); {end}",
            f"b: {start} the name of distributed mesh 2: 'even' on clients 1, 2, 3; 'odd' on "
            f"client 0 ({jobs[0]}); {end}",
            f"c: {start} the number of devices of distributed mesh 3: 2 on clients 0, 2, 3; 1 on "
            f"client 1 ({jobs[1]}); {end}",
            f"d: {start} the name of distributed mesh 4: 'left' on clients 0, 1; 'right' on "
            f"client 2 ({jobs[2]}), client 3 ({jobs[3]}); {end}",
            f"e: {start} where they wait, at the barrier: 'after' on clients 0, 1, 2; 'before' on "
            f"client 3 ({jobs[3]}); all clients must call the same functions in the same order",
        ]
        assert said[:5] == expected
        assert said[5].startswith(f"f: {start} program 0: ")
        assert f" on client 3 ({jobs[3]}); all clients must call " in said[5]
        assert said[6] == (
            f"g: {start} the number of examples in a dataset: 16 on clients 0, 2, 3; 24 on client "
            f"1 ({jobs[1]}); all clients must pass the whole dataset, and the same state"
        )
        late = f"h: client 0 ({jobs[0]}) did not get to barrier 'late' within 0.3 s; "
        assert said[7].startswith(late)  # client 0 too, when it comes
        for line, name in zip(said[8:], ("i: {} 'w'", "j: {} 'v'", "k: {} 'v'"), strict=True):
            variable = name.format(f"{start} the value of variable")
            assert re.match(rf"{variable}: checksum \w+ on clients 0, 1, 3; checksum \w+ on", line)


@pytest.mark.parametrize(("clients", "devices"), [(2, 4), (4, 2)])
def test_variables_data_and_a_checkpoint_together_train_as_one_process_does(
    clients: int, devices: int, tmp_path: Path
) -> None:
    weights, examples, expected = whole_step.start(), whole_step.data(), []
    for step in range(whole_step.STEPS):
        batch = slice(step * whole_step.BATCH, (step + 1) * whole_step.BATCH)
        loss, gradients = jax.value_and_grad(whole_step.loss_of)(
            weights, examples["x"][batch], examples["y"][batch]
        )
        weights = {n: w - whole_step.RATE * gradients[n] for n, w in weights.items()}
        expected.append(float(loss))
    expected += expected[whole_step.STOP :]  # once more, from the checkpoint
    ended = run_clients(
        "whole_step.py", str(tmp_path), jobs=addresses(clients), devices=devices, imports=ORBAX
    )
    for client in ended.values():
        assert client.status == 0, client.err
        (line,) = re.findall("^losses (.*)$", client.out, re.MULTILINE)
        # Sums in another order, in five steps one after the other: some units in the last place.
        np.testing.assert_allclose([float(word) for word in line.split()], expected, rtol=1e-5)
