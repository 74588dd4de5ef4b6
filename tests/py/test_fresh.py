"""Programs in forks do what they do in new processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from tests.py import fresh
from tests.py.fresh_server import check_forkable

PROGRAM = """
import os, sys
print(__name__, sys.argv[1:], sys.path[0], os.getcwd(), os.environ["WORD"], sys.stdin.read())
print("trouble", file=sys.stderr)
import atexit
atexit.register(print, "at exit")
sys.exit(4)
"""


@pytest.mark.parametrize("kind", ["file", "-c", "-m"])
def test_a_program_ends_and_prints_as_in_a_process_of_its_own(kind: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    words = {"file": ["program.py"], "-c": ["-c", PROGRAM], "-m": ["-m", "program"]}[kind]
    words += ["--steps", "2"]
    env = {**os.environ, "WORD": "given", "PYTHONPATH": f"{tmp_path}:{fresh.ROOT}"}
    own = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    forked = fresh.run(words, cwd=tmp_path, env=env)
    assert own.returncode == 4
    assert (forked.returncode, forked.stderr) == (own.returncode, own.stderr)
    assert forked.stdout.split() == own.stdout.split()


def test_an_environment_and_its_flags_are_the_programs_own() -> None:
    flags = "--xla_force_host_platform_device_count=3"
    done = fresh.run(
        ["-c", "import jax; print(jax.device_count())"], env={**os.environ, "XLA_FLAGS": flags}
    )
    assert done.stdout == "3\n"


def test_a_program_that_takes_too_long_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        fresh.run(["-c", "import threading; threading.Event().wait()"], env=os.environ, timeout=0.1)
    assert fresh.run(["-c", "print(1)"], env=os.environ).stdout == "1\n"


def test_a_program_is_killed_that_does_not_lead_its_session_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_early(pid: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "killpg", too_early)
    words = ["-c", "import threading; threading.Event().wait()"]
    program = fresh.start(words, tmp_path / "out", tmp_path / "err", env=os.environ)
    program.kill()
    assert program.wait(30.0) == -signal.SIGKILL


def test_a_process_in_which_jax_has_started_is_not_forked() -> None:
    jax.devices()
    with pytest.raises(AssertionError, match="jax has started, and cannot be forked"):
        check_forkable()
