"""`sys.exit` says with which status a process ends, and only where it ends."""

import os

import pytest

from tests.py import fresh

PROGRAM = """
import atexit, sys, threading
from dtensor.runtime.clients.exits import hear_exit

hear_exit(lambda exit: print("heard", exit.text))
status = eval(sys.argv[1])
try:
    sys.exit(status)
except SystemExit as caught:
    print("caught", caught.code)
thread = threading.Thread(target=lambda: sys.exit(status))
thread.start()
thread.join()
atexit.register(print, "atexit")
if sys.argv[2] == "exit":
    sys.exit(status)
"""


@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        ("3", 3, "exit status 3"),
        ("-1", 255, "exit status 255"),
        ("True", 1, "exit status 1"),
        ("0", 0, "exit status 0"),
        ("None", 0, "exit status 0"),
        ("'no data'", 1, "exit status 1: no data"),
        ("(1, 2)", 1, "exit status 1: (1, 2)"),
    ],
)
def test_the_status_is_heard_before_what_atexit_calls(given: str, status: int, text: str) -> None:
    done = fresh.run(["-c", PROGRAM, given, "exit"], env=os.environ)
    value = eval(given)
    assert done.stdout == f"caught {value}\nheard {text}\natexit\n"
    assert done.returncode == status
    assert done.stderr == (f"{value}\n" if ":" in text else "")


def test_an_exit_that_is_caught_is_none() -> None:
    done = fresh.run(["-c", PROGRAM, "3", "go on"], env=os.environ)
    assert done.stdout == "caught 3\natexit\n"
    assert (done.returncode, done.stderr) == (0, "")
