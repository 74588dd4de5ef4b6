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
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from numbers import Integral

from dtensor.dialect.errors import ConfigError
from dtensor.runtime.clients import coordination

JOBS = "DTENSOR_JOBS"
CLIENT_ID = "DTENSOR_CLIENT_ID"
JOB_NAME = "DTENSOR_JOB_NAME"
NUM_CLIENTS = "DTENSOR_NUM_CLIENTS"
ENABLE_HEARTBEAT = "DTENSOR_ENABLE_HEARTBEAT"
CLIENT_TIMEOUT = "DTENSOR_CLIENT_TIMEOUT_SECONDS"
PARALLEL_EXECUTOR = "DTENSOR_USE_PARALLEL_EXECUTOR"

PROGRESS = "DTENSOR_PROGRESS"  # 0: nothing is said of what takes long
_NAMES = (
    *(JOBS, CLIENT_ID, JOB_NAME, NUM_CLIENTS, ENABLE_HEARTBEAT),
    *(CLIENT_TIMEOUT, PARALLEL_EXECUTOR, PROGRESS),
)
_NEAR = 0.85  # how alike names are that are taken for one; TensorFlow has others of this prefix

PEER_LOST = 75  # exit status of a client that ends because another one is lost; "try again"

_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:]+):(\d{1,5})", re.ASCII)
_OWN_FLAGS = ("dump", "device_count", "profile", "log", "cache_dir")  # of XLA, as clients differ
_WORDS = {True: ("true", "1", "yes", "on"), False: ("false", "0", "no", "off")}


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


def seat() -> Seat | None:
    """This process's place among several clients, as a launcher says it; None in local mode.

    Raises:
        ConfigError: a variable is malformed, or two do not agree.
    """
    addresses = jobs()
    if addresses:
        found: Seat | None = Seat(addresses[0], len(addresses), client_id(), JOBS)
    elif os.environ.get(NUM_CLIENTS) == "1":
        found = None
    else:
        missing = [name for name in _TORCHRUN if not os.environ.get(name)]
        found = _detected() if missing else _torchrun()
        size = os.environ.get("WORLD_SIZE") or "1"
        is_alone = found is None and coordination.jax_process() is None
        if is_alone and os.environ.get("RANK") and size != "1":
            lack = f"RANK stands beside it, but not {' and '.join(missing)}"
            alone = f"set {NUM_CLIENTS}=1 to run alone"
            raise _bad("WORLD_SIZE", size, f"{lack}; set all as torchrun does, or {alone}")
    return found if found is not None and found.count > 1 else None


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
    """What jax finds in the environment: SLURM, Open MPI, GKE, Cloud TPU, Kubernetes.

    jax.distributed.initialize() does the same, but a process learns its place there only when all
    others have come.
    """
    from jax._src.clusters import ClusterEnv

    unknown = (None, None, None, None, None)
    try:
        address, count, index, devices = ClusterEnv.auto_detect_unset_distributed_params(
            *unknown, math.ceil(client_timeout())
        )
    except RuntimeError as error:
        warnings.warn(
            f"jax cannot tell which process of the cluster this is, so it is a run of one client: "
            f"{error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    if address is None or count is None or index is None:
        return None
    own = None if devices is None else tuple(devices)
    return Seat(address, int(count), int(index), "the cluster's variables", own)


def jobs() -> list[str]:
    """The `host:port` of every client, by client id; empty in local mode.

    Raises:
        ConfigError: DTENSOR_JOBS is malformed.

    Example:
        >>> dtensor.jobs()
        []
    """
    return list(_parse_jobs(os.environ.get(JOBS, "")))


@lru_cache(maxsize=4)  # every device's name asks
def _parse_jobs(text: str) -> tuple[str, ...]:
    entries = tuple(text.split(",")) if text else ()
    for number, entry in enumerate(entries):
        address = _ADDRESS.fullmatch(entry)
        if address is None or not 1 <= int(address[1]) <= 65535:
            needed = "is not host:port, without spaces and with a port of 1 to 65535"
            raise _bad(JOBS, text, f"entry {number}, {entry!r}, {needed}")
        if entry in entries[:number]:
            raise _bad(JOBS, text, f"'{entry}' is there twice; every client needs its own port")
    return entries


def _launched() -> tuple[int, int]:
    """Which process this is and of how many, as jax or else a launcher counts them."""
    process = coordination.jax_process()
    if process is None:
        found = seat()
        process = (0, 1) if found is None else (found.index, found.count)
    return process


def num_clients() -> int:
    """How many clients the run has; 1 in local mode.

    Raises:
        ConfigError: DTENSOR_JOBS is malformed, or DTENSOR_NUM_CLIENTS says something else.

    Example:
        >>> dtensor.num_clients()
        1
    """
    count = len(jobs()) or _launched()[1]
    text = os.environ.get(NUM_CLIENTS, "")
    if text and _integer(NUM_CLIENTS, text, 1) != count:
        who = JOBS if jobs() else f"the launcher, without {JOBS},"
        raise _bad(NUM_CLIENTS, text, f"{who} says {count}; leave {NUM_CLIENTS} out")
    return count


def client_id() -> int:
    """Which client of the run this process is: 0 to `num_clients() - 1`.

    Raises:
        ConfigError: DTENSOR_CLIENT_ID is not such a number, or DTENSOR_JOBS is malformed.

    Example:
        >>> dtensor.client_id()
        0
    """
    count, index = num_clients(), 0 if jobs() else _launched()[0]
    text = os.environ.get(CLIENT_ID, "")
    if not text:
        return index
    number = _integer(CLIENT_ID, text, 0)
    if number >= count:
        raise _bad(CLIENT_ID, text, f"it must be below {count}, how many {JOBS} or a launcher says")
    if number != index and not jobs():
        raise _bad(CLIENT_ID, text, f"the launcher says this is process {index}; leave it out")
    return number


def job_name() -> str:
    """The name of the job all clients belong to: `localhost`, or `worker` if there are several.

    Raises:
        ConfigError: DTENSOR_JOB_NAME cannot be part of a device's name.

    Example:
        >>> dtensor.job_name()
        'localhost'
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

    Example:
        >>> dtensor.full_job_name()
        'localhost/replica:0/task:0'
    """
    task = client_id() if task_id is None else checked_client(task_id, "task_id")
    return f"{job_name()}/replica:0/task:{task}"


def checked_client(number: int, what: str) -> int:
    """`number`, given as the argument `what`, if it is a client's; else ConfigError."""
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

    Example:
        >>> dtensor.heartbeat_enabled()
        True
    """
    text = os.environ.get(ENABLE_HEARTBEAT) or "true"
    for is_on, words in _WORDS.items():
        if text.lower() in words:
            return is_on
    raise _bad(ENABLE_HEARTBEAT, text, "it must be true or false (or 1, 0, yes, no, on, off)")


def client_timeout() -> float:
    """How many seconds a client waits for another one before that is an error; 300 by default.

    Raises:
        ConfigError: DTENSOR_CLIENT_TIMEOUT_SECONDS is not a positive number.
    """
    text = os.environ.get(CLIENT_TIMEOUT) or "300"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 1e6:
        raise _bad(CLIENT_TIMEOUT, text, "it must be a number of seconds above 0, up to 1000000")
    return seconds


def refuse_misspelt() -> None:
    """Refuse a variable whose name is nearly one of dtensor's: it would be ignored.

    Raises:
        ConfigError: there is one.
    """
    for name in os.environ:
        if name.startswith("DTENSOR_") and name not in _NAMES:
            near = get_close_matches(name, _NAMES, n=1, cutoff=_NEAR)
            if near:
                raise ConfigError(
                    f"{name} is no variable of dtensor's; did you mean {near[0]}? Unset it if not"
                )


def refuse_executor() -> None:
    """Refuse DTENSOR_USE_PARALLEL_EXECUTOR, which would do nothing.

    Raises:
        ConfigError: it is set.
    """
    text = os.environ.get(PARALLEL_EXECUTOR)
    if text:
        remedy = "unset it, and for Pathways call pathwaysutils.initialize() first in the program"
        raise _bad(PARALLEL_EXECUTOR, text, f"it means nothing to jax's executor: {remedy}")


def client_name(number: int) -> str:
    """What messages call a client: `client 2 (host:port)`."""
    return f"client {number}" + "".join(f" ({at})" for at in jobs()[number : number + 1])


def client_names(numbers: Sequence[int]) -> str:
    """What messages call several clients."""
    return ", ".join(client_name(number) for number in numbers)


def _integer(name: str, text: str, least: int) -> int:
    if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) is None:
        raise _bad(name, text, "it must be an integer")
    if int(text) < least:
        raise _bad(name, text, f"it must be at least {least}")
    return int(text)


def _bad(name: str, text: str, needed: str) -> ConfigError:
    return ConfigError(f"environment variable {name} is {text!r}: {needed}")


def xla_flags() -> str:
    """XLA's flags that change programs: clients that compile otherwise exchange other bytes."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    kept = sorted(flag for flag in flags if not any(part in flag for part in _OWN_FLAGS))
    return " ".join(kept) or "none"
