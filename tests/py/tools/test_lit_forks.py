"""RUN lines run their tools in forks of a server, as the plain commands would run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.lit.ask import ADDRESS
from tests.py.fresh import ROOT

_ASK = [sys.executable, "-I", "-S", str(ROOT / "tests/lit/ask.py")]
_PATHS = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment of a client that has a server."""
    address = str(tmp_path_factory.mktemp("lit") / "socket")
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/lit/forks.py"), address],
        env=_PATHS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    yield {**_PATHS, ADDRESS: address}
    server.communicate()
    assert server.returncode == 0


def _run(
    words: list[str], env: Mapping[str, str], given: str = "", cwd: Path = ROOT
) -> tuple[int, str, str]:
    done = subprocess.run(
        [*_ASK, *words], env=env, cwd=cwd, input=given, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


_COMMANDS = {
    "help": (["dtensor-opt", "--version"], "", 0),
    "a file in the folder": (["dtensor-opt", "in.mlir", "--cse"], "", 0),
    "stdin": (["dtensor-opt", "-"], "module {}", 0),
    "a wrong module": (["dtensor-opt", "-"], "module {", 1),
    "no such file": (["dtensor-opt", "missing.mlir"], "", 1),
    "a usage error": (["dtensor-opt", "--no-such-option"], "", 1),
    "text that matches": (["filecheck", "in.mlir"], "an attribute", 0),
    "text that does not": (["filecheck", "in.mlir"], "another text", 1),
}


@pytest.mark.parametrize("name", _COMMANDS)
def test_a_fork_prints_and_ends_as_the_plain_command_does(
    name: str, served: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "in.mlir").write_text("module attributes {}  {} // CHECK: attribute\n")
    words, given, status = _COMMANDS[name]
    found = _run(words, served, given, tmp_path)
    assert found == _run(words, _PATHS, given, tmp_path)
    assert found[0] == status


def test_without_a_server_that_answers_it_is_the_plain_command(tmp_path: Path) -> None:
    env = {**_PATHS, ADDRESS: str(tmp_path / "nobody")}
    status, out, _ = _run(["dtensor-opt", "--version"], env)
    assert (status, out.split()[0]) == (0, "dtensor-opt")


def test_a_fork_ends_with_its_client_and_a_client_with_its_fork(
    served: Mapping[str, str], tmp_path: Path
) -> None:
    fifo = tmp_path / "never written"
    os.mkfifo(fifo)  # whoever opens it waits for a writer, and when there is one for its end
    command = [*_ASK, "dtensor-opt", str(fifo)]
    client = subprocess.Popen(command, env=served)
    writer = os.open(fifo, os.O_WRONLY)  # returns when the fork reads
    client.kill()
    client.wait()
    _until_nobody_reads(writer)

    client = subprocess.Popen(command, env=served)
    os.close(os.open(fifo, os.O_WRONLY))
    assert client.wait() == 0

    client = subprocess.Popen(command, env=served, start_new_session=True)
    writer = os.open(fifo, os.O_WRONLY)
    os.kill(_reader_of(str(fifo)), signal.SIGTERM)
    assert client.wait() == -signal.SIGTERM
    os.close(writer)


def _until_nobody_reads(writer: int) -> None:
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            os.write(writer, b" ")
            time.sleep(0.01)
    except BrokenPipeError:
        return
    finally:
        os.close(writer)
    raise AssertionError("the fork reads on though its client is gone")


def _reader_of(file: str) -> int:
    """The process that has a file open which this one also has."""
    for process in os.listdir("/proc"):
        if process.isdigit() and int(process) != os.getpid():
            folder = f"/proc/{process}/fd"
            try:
                opened = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
            except OSError:
                continue
            if file in opened:
                return int(process)
    raise AssertionError(f"nobody reads {file}")
