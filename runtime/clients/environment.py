"""Which client of a run this process is, as its environment variables say.

Those of dtensor come first, then torchrun's, which are read anew at every call, then those of the
clusters that jax knows, which are read once. A malformed one is answered by one error that names
the variable, shows its value and says what is needed.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from numbers import Integral

from dtensor.dialect.errors import ConfigError
from dtensor.runtime.clients import coordination

JOBS = "DTENSOR_JOBS"
CLIENT_ID = "DTENSOR_CLIENT_ID"
JOB_NAME = "DTENSOR_JOB_NAME"
NUM_CLIENTS = "DTENSOR_NUM_CLIENTS"
ENABLE_HEARTBEAT = "DTENSOR_ENABLE_HEARTBEAT"
PARALLEL_EXECUTOR = "DTENSOR_USE_PARALLEL_EXECUTOR"
CLIENT_TIMEOUT = "DTENSOR_CLIENT_TIMEOUT_SECONDS"

PEER_LOST = 75  # exit status of a client that ends because another one is lost; "try again"

_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
_DEFAULT_TIMEOUT_SECONDS = 300.0
_WORDS = {"true": True, "1": True, "yes": True, "on": True}
_WORDS |= {"false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True)
class Seat:
    """A client's place in a run of several.

    Attributes:
        address: `host:port` at which client 0 can be reached.
        count: how many clients there are.
        index: which of them this process is.
        source: where that is said, for messages.
        devices: the accelerators of its machine that it uses; None is all.
    """

    address: str
    count: int
    index: int
    source: str
    devices: tuple[int, ...] | None = None

    def name(self, number: int) -> str:
        """What messages call a client."""
        return client_name(number)


def seat() -> Seat | None:
    """This process's place among several clients; None in local mode.

    Raises:
        ConfigError: a variable is malformed, or two do not agree.
    """
    addresses = jobs()
    if addresses:
        return Seat(addresses[0], len(addresses), client_id(), JOBS) if len(addresses) > 1 else None
    found = None if os.environ.get(NUM_CLIENTS, "") == "1" else _launched()
    return found if found is not None and found.count > 1 else None


def _launched() -> Seat | None:
    if all(os.environ.get(name) for name in _TORCHRUN):
        return _torchrun()
    return _detected()


def _torchrun() -> Seat:
    host, port, rank, size = (os.environ[name] for name in _TORCHRUN)
    count, index = _integer("WORLD_SIZE", size, 1), _integer("RANK", rank, 0)
    if index >= count:
        raise _bad("RANK", rank, f"it must be below {count}, which is WORLD_SIZE")
    number = _integer("MASTER_PORT", port, 1)
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        number += 1  # torchrun itself listens at MASTER_PORT
    local = os.environ.get("LOCAL_RANK", "")
    several = os.environ.get("LOCAL_WORLD_SIZE", "1") != "1" and local
    devices = (_integer("LOCAL_RANK", local, 0),) if several else None  # one each, as torch has it
    return Seat(f"{host}:{number}", count, index, "MASTER_ADDR, MASTER_PORT and RANK", devices)


@cache  # every device's name asks, and on a Cloud TPU jax asks a server
def _detected() -> Seat | None:
    try:
        found = coordination.detected_cluster(math.ceil(client_timeout()))
    except RuntimeError as error:
        warnings.warn(
            f"jax cannot tell which process of the cluster this is, so it is a run of one client: "
            f"{error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    if found is None:
        return None
    address, count, index, devices = found
    return Seat(address, count, index, "the cluster's variables", devices)


def jobs() -> list[str]:
    """The `host:port` of every client, by client id; empty in local mode.

    Raises:
        ConfigError: DTENSOR_JOBS is malformed.
    """
    return list(_parse_jobs(os.environ.get(JOBS, "")))


@lru_cache(maxsize=4)  # every device's name asks
def _parse_jobs(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    entries = tuple(text.split(","))
    for number, entry in enumerate(entries):
        _check_job(entry, number, text)
    if len(set(entries)) < len(entries):
        entry = Counter(entries).most_common(1)[0][0]
        raise _bad(JOBS, text, f"'{entry}' is there twice; every client needs its own port")
    return entries


def num_clients() -> int:
    """How many clients the run has; 1 in local mode.

    Raises:
        ConfigError: DTENSOR_JOBS is malformed, or DTENSOR_NUM_CLIENTS says something else.
    """
    count = len(jobs())
    if not count:
        process = coordination.jax_process()
        found = seat() if process is None else process
        count = 1 if found is None else found.count
    text = os.environ.get(NUM_CLIENTS, "")
    if text and _integer(NUM_CLIENTS, text, 1) != count:
        where = f"{JOBS} lists {count}" if jobs() else f"{JOBS} is not set, which means {count}"
        if count > 1 and not jobs():
            where = f"the launcher says {count}"
        raise _bad(NUM_CLIENTS, text, f"{where}; leave {NUM_CLIENTS} out, that is enough")
    return count


def client_id() -> int:
    """Which client of the run this process is: 0 to `num_clients() - 1`.

    Raises:
        ConfigError: DTENSOR_CLIENT_ID is not such a number, or DTENSOR_JOBS is malformed.
    """
    count = num_clients()
    text = os.environ.get(CLIENT_ID, "")
    process = None if jobs() else coordination.jax_process() or seat()
    if not text:
        return 0 if process is None else process.index
    number = _integer(CLIENT_ID, text, 0)
    if number >= count:
        why = f"{JOBS} lists {count} clients" if jobs() else f"{JOBS} is not set: one client, 0"
        raise _bad(CLIENT_ID, text, f"it must be below {count}; {why}")
    if process is not None and number != process.index:
        said = "the launcher" if isinstance(process, Seat) else "jax.distributed"
        raise _bad(CLIENT_ID, text, f"{said} says this is process {process.index}")
    return number


def job_name() -> str:
    """The name of the job all clients belong to: `localhost`, or `worker` if there are several.

    Raises:
        ConfigError: DTENSOR_JOB_NAME cannot be part of a device's name.
    """
    text = os.environ.get(JOB_NAME, "")
    if not text:
        return "localhost" if num_clients() == 1 else "worker"
    if re.fullmatch(r"[A-Za-z][\w.\-]*", text, re.ASCII) is None:
        raise _bad(JOB_NAME, text, "it must be letters, digits, '_', '.', '-', a letter first")
    return text


def full_job_name(task_id: int | None = None) -> str:
    """The name of a client, `worker/replica:0/task:2`; without `task_id`, this one's.

    Raises:
        ConfigError: there is no such client, or the environment is malformed.
    """
    task = client_id() if task_id is None else checked_client(task_id, "task_id")
    return f"{job_name()}/replica:0/task:{task}"


def checked_client(number: int, what: str) -> int:
    """`number`, if it is a client's.

    Args:
        number: what was given.
        what: name of the argument, for the message.

    Raises:
        ConfigError: it is not the id of a client.
    """
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise ConfigError(f"{what} is {number!r}; it must be an integer")
    count = num_clients()
    if not 0 <= number < count:
        have = "local mode has client 0 only" if count == 1 else f"there are 0 to {count - 1}"
        raise ConfigError(f"{what} is {number}, but {have}")
    return int(number)


def heartbeat_enabled() -> bool:
    """Whether a client ends by itself when another one is lost; true unless switched off.

    Raises:
        ConfigError: DTENSOR_ENABLE_HEARTBEAT is neither true nor false.
    """
    text = os.environ.get(ENABLE_HEARTBEAT, "")
    if not text:
        return True
    if text.lower() not in _WORDS:
        raise _bad(ENABLE_HEARTBEAT, text, "it must be true or false (or 1, 0, yes, no, on, off)")
    return _WORDS[text.lower()]


def client_timeout() -> float:
    """How many seconds a client waits for another one before that is an error; 300 by default.

    Raises:
        ConfigError: DTENSOR_CLIENT_TIMEOUT_SECONDS is not a positive number.
    """
    text = os.environ.get(CLIENT_TIMEOUT, "")
    if not text:
        return _DEFAULT_TIMEOUT_SECONDS
    seconds = float(text) if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII) else math.nan
    if not 0 < seconds <= 1e6:
        raise _bad(CLIENT_TIMEOUT, text, "it must be a number of seconds above 0, up to 1000000")
    return seconds


def check_rest() -> None:
    """Check the variables that may not be needed in this run; a malformed one is still an error.

    Raises:
        ConfigError: one is malformed.
    """
    job_name()
    heartbeat_enabled()
    client_timeout()
    text = os.environ.get(PARALLEL_EXECUTOR, "")
    if text:
        needed = "unset it; for Pathways call pathwaysutils.initialize() first in the program"
        raise _bad(PARALLEL_EXECUTOR, text, f"there is no other executor than jax's: {needed}")


def client_name(number: int) -> str:
    """What messages call a client: `client 2 (host:port)`."""
    addresses = jobs()
    return (
        f"client {number} ({addresses[number]})" if number < len(addresses) else f"client {number}"
    )


def client_names(numbers: Sequence[int]) -> str:
    """What messages call several clients."""
    return ", ".join(client_name(number) for number in numbers)


def _check_job(entry: str, number: int, text: str) -> None:
    if not entry:
        raise _bad(JOBS, text, f"entry {number} is empty; the form is host:port,host:port")
    if re.search(r"\s", entry):
        raise _bad(JOBS, text, f"entry {number}, {entry!r}, has a space in it; leave spaces out")
    host, _, port = entry.rpartition(":")
    if not host or (":" in host and not re.fullmatch(r"\[[0-9A-Fa-f:.]+\]", host)):
        raise _bad(JOBS, text, f"entry {number}, {entry!r}, is not host:port")
    if not re.fullmatch(r"\d{1,5}", port, re.ASCII) or not 1 <= int(port) <= 65535:
        raise _bad(
            JOBS, text, f"entry {number}, {entry!r}, has port '{port}'; it must be 1 to 65535"
        )


def _integer(name: str, text: str, least: int) -> int:
    if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) is None:
        raise _bad(name, text, "it must be an integer")
    if int(text) < least:
        raise _bad(name, text, f"it must be at least {least}")
    return int(text)


def _bad(name: str, text: str, needed: str) -> ConfigError:
    return ConfigError(f"environment variable {name} is {text!r}: {needed}")
