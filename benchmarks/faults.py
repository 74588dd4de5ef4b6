"""What becomes of the other clients when one is lost: after how long they end, with which words.

    python benchmarks/faults.py [--engine dtensor|jax] [--json FILE] [FAULT ...]

Three clients on this machine run one program; then something happens to one of them. `jax` is
jax.distributed alone, with heartbeat_timeout_seconds=10. Prints a table in markdown. The rows whose
network is cut need root and `ip netns`: each client then has a network namespace of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

CLIENTS = 3
GIVE_UP_SECONDS = 150.0
START_SECONDS = 10  # how long clients wait for one that never comes
HOLD_SECONDS = 60
HEARTBEAT_SECONDS = 10  # of jax alone
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Fault:
    """What happens to a client; its key in FAULTS is the table's first column."""

    action: str
    client: int


@dataclass(frozen=True)
class Outcome:
    """How it went for the others; `seconds` is None where one of them was still there."""

    fault: str
    engine: str
    seconds: float | None
    statuses: dict[int, int | None]
    messages: dict[int, str]


FAULTS = {
    "never comes": Fault("never", 2),
    "client 0 never comes": Fault("never", 0),
    "killed": Fault("kill", 2),
    "stopped (SIGSTOP)": Fault("stop", 2),
    "client 0 killed": Fault("kill", 0),
    "client 0 stopped": Fault("stop", 0),
    "GIL held for 60 s": Fault("hold", 2),
    "network cut": Fault("cut", 2),
    "network of client 0 cut": Fault("cut", 0),
    "other program on one client": Fault("program", 2),
    "other mesh on one client": Fault("mesh", 2),
    "uncaught exception": Fault("fail", 2),
    "uncaught exception in client 0": Fault("fail", 0),
}


def client(engine: str, action: str, lost: int, number: int, address: str) -> None:
    """One client: connect, compute together, suffer the fault, compute again."""
    odd = number == lost
    run = (_in_dtensor if engine == "dtensor" else _in_jax)(action, odd, number, address)
    for step in run:
        print(step, time.monotonic(), flush=True)
        if step == "ready":
            time.sleep(1.0)  # the others are in the collective, or come to it
            if odd:
                print("fault", time.monotonic(), flush=True)
                _suffer(action)


def _suffer(action: str) -> None:
    if action in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)
    elif action == "hold":
        ctypes.PyDLL(None).sleep(HOLD_SECONDS)  # PyDLL keeps the interpreter
    elif action == "cut":
        time.sleep(GIVE_UP_SECONDS)
    elif action == "fail":
        raise ValueError("the batch is empty")


def _in_dtensor(action: str, odd: bool, number: int, address: str) -> Iterator[str]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import dtensor

    dtensor.initialize_accelerator_system("CPU")
    mesh = dtensor.create_distributed_mesh([("x", CLIENTS)])
    rows = dtensor.Layout(["x"], mesh)
    x = dtensor.copy_to_mesh(np.ones(CLIENTS, np.float32), rows)
    total = dtensor.jit(jnp.sum, out_layouts=dtensor.Layout.replicated(mesh, 0))
    jax.block_until_ready(total(x))
    dtensor.barrier(mesh)
    yield "ready"
    if action == "mesh":
        dtensor.create_distributed_mesh([("y", CLIENTS)] if odd else [("x", 1), ("y", CLIENTS)])
    if action == "program" and odd:
        total = dtensor.jit(lambda a: jnp.max(a) * 2, out_layouts=total(x).layout)
    elif action == "program":
        total = dtensor.jit(lambda a: jnp.sum(a) * 3, out_layouts=total(x).layout)
    print("result", float(total(x)), flush=True)
    yield "done"


def _in_jax(action: str, odd: bool, number: int, address: str) -> Iterator[str]:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    jax.distributed.initialize(
        address,
        CLIENTS,
        number,
        cluster_detection_method="deactivate",
        initialization_timeout=START_SECONDS,
        heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
    )

    def placed(devices: Sequence[jax.Device]) -> jax.Array:
        mesh = jax.sharding.Mesh(np.array(devices), "x")
        ones = np.ones(CLIENTS, np.float32)
        sharding = NamedSharding(mesh, PartitionSpec("x"))
        return jax.make_array_from_callback((CLIENTS,), sharding, lambda index: ones[index])

    x = placed(jax.devices())
    jax.block_until_ready(jax.jit(jnp.sum)(x))
    yield "ready"
    total = jnp.sum
    if action == "mesh" and odd:
        x = placed(jax.devices()[::-1])
    if action == "program":
        total = (lambda a: jnp.max(a) * 2) if odd else (lambda a: jnp.sum(a) * 3)
    print("result", float(jax.jit(total)(x)), flush=True)
    yield "done"


def main(argv: Sequence[str] | None = None) -> int:
    """Make the table that the command line asks for."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--engine", choices=("dtensor", "jax"), action="append")
    parser.add_argument("--json", type=Path)
    parser.add_argument("faults", nargs="*", metavar="FAULT")
    options = parser.parse_args(argv)
    outcomes = []
    for name in options.faults or FAULTS:
        for engine in options.engine or ("dtensor", "jax"):
            outcomes.append(measured(name, engine))
            print(_row(outcomes[-1]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return 0


def measured(name: str, engine: str) -> Outcome:
    """Let a fault happen once, and wait until the other clients have ended."""
    fault = FAULTS[name]
    with tempfile.TemporaryDirectory() as folder, _hosts(fault.action == "cut") as hosts:
        logs = [Path(folder) / str(number) for number in range(CLIENTS)]
        address = [f"{host}:{_free_port()}" for host in hosts]
        began = time.monotonic()
        running = {
            number: _started(engine, fault, number, address, logs[number])
            for number in range(CLIENTS)
            if not (fault.action == "never" and number == fault.client)
        }
        try:
            ends = _ends(running, fault, logs[fault.client])
        finally:
            for process in running.values():
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        moment = _moment(logs[fault.client]) or began
        others = {n: end for n, end in ends.items() if n != fault.client}
        here = len(others) == CLIENTS - 1
        return Outcome(
            name,
            engine,
            round(max(others.values()) - moment, 1) if here else None,
            {n: running[n].returncode if n in others else None for n in running},
            {n: _message(logs[n].read_text(errors="replace")) for n in running},
        )


def _started(
    engine: str, fault: Fault, number: int, address: Sequence[str], log: Path
) -> subprocess.Popen[bytes]:
    arguments = ["client", engine, fault.action, str(fault.client), str(number), address[0]]
    command = [sys.executable, __file__, *arguments]
    if fault.action == "cut":
        command = ["ip", "netns", "exec", _namespace(number), *command]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DTENSOR_", "XLA_"))}
    environment = {
        **kept,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
        "DTENSOR_JOBS": ",".join(address),
        "DTENSOR_CLIENT_ID": str(number),
        "DTENSOR_CLIENT_TIMEOUT_SECONDS": str(START_SECONDS),
    }
    with log.open("wb") as out:
        return subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, start_new_session=True
        )


def _ends(running: dict[int, subprocess.Popen[bytes]], fault: Fault, log: Path) -> dict[int, float]:
    """When each client was seen to have ended; those that did not are left out."""
    ends: dict[int, float] = {}
    deadline = time.monotonic() + GIVE_UP_SECONDS
    cut = fault.action != "cut"
    while len(ends) < len(running) and time.monotonic() < deadline:
        for number, process in running.items():
            if number not in ends and process.poll() is not None:
                ends[number] = time.monotonic()
        if not cut and _moment(log):
            _ip("-n", _namespace(fault.client), "link", "set", "eth0", "down")
            cut = True
        if all(number in ends for number in running if number != fault.client):
            break
        time.sleep(0.05)
    return ends


def _moment(log: Path) -> float | None:
    text = log.read_text(errors="replace") if log.exists() else ""
    found = re.findall(r"^fault (\S+)$", text, re.MULTILINE)
    return float(found[0]) if found else None


def _message(log: str) -> str:
    """The words that a client ended with, on one line."""
    own = re.findall(
        r"^(?:dtensor: .*|[\w.]*(?:Error|Exception): .*|result .*)$", log, re.MULTILINE
    )
    aborts = re.findall(r"absl::Status: (.*?)(?=\*\*\* Check|\Z)", log, re.DOTALL)
    words = re.sub(r"\[type\.googleapis\S*|\s+", " ", (own[-1:] + aborts[-1:] or [""])[-1])
    return words.strip()[:400]


@contextmanager
def _hosts(apart: bool) -> Iterator[list[str]]:
    """Names of the clients' hosts; with `apart` each has a network of its own on one bridge."""
    if not apart:
        yield ["localhost"] * CLIENTS
        return
    _remove_networks()
    try:
        _ip("link", "add", "dtbridge", "type", "bridge")
        _ip("link", "set", "dtbridge", "up")
        hosts = [f"10.213.7.{number + 1}" for number in range(CLIENTS)]
        for number, host in enumerate(hosts):
            space, cable = _namespace(number), f"dtcable{number}"
            _ip("netns", "add", space)
            # gloo connects to the address of the host's name, so that is each one's own.
            names = Path("/etc/netns", space, "hosts")
            names.parent.mkdir(parents=True, exist_ok=True)
            names.write_text(f"127.0.0.1 localhost\n{host} {socket.gethostname()}\n")
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", cable, "master", "dtbridge", "up")
            _ip("-n", space, "address", "add", f"{host}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", space, "link", "set", device, "up")
        yield hosts
    finally:
        _remove_networks()


def _remove_networks() -> None:
    for number in range(CLIENTS):
        subprocess.run(["ip", "netns", "del", _namespace(number)], capture_output=True, check=False)
        shutil.rmtree(Path("/etc/netns", _namespace(number)), ignore_errors=True)
        cable = ["ip", "link", "del", f"dtcable{number}"]
        subprocess.run(cable, capture_output=True, check=False)
    subprocess.run(["ip", "link", "del", "dtbridge"], capture_output=True, check=False)


def _namespace(number: int) -> str:
    return f"dtclient{number}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _row(outcome: Outcome) -> str:
    seconds = f"not in {GIVE_UP_SECONDS:g}" if outcome.seconds is None else f"{outcome.seconds:g}"
    statuses = ", ".join(f"{n}: {status}" for n, status in outcome.statuses.items())
    words = " / ".join(f"{n}: {text}" for n, text in outcome.messages.items() if text)
    return f"| {outcome.fault} | {outcome.engine} | {seconds} | {statuses} | {words} |"


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
    else:
        sys.exit(main())
