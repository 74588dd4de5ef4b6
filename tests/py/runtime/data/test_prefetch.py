"""Reading ahead: how far, in which order, and that threads end."""

import gc
import os
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dtensor.runtime.data import prefetch
from dtensor.runtime.data.dataset import DTensorDataset
from tests.py import fresh
from tests.py.runtime.data.sources import MESH, ROWS, CountedStream, labels, values


def dataset(source: Any, prefetch: int | None) -> DTensorDataset:
    return DTensorDataset(
        source, mesh=MESH, layouts=ROWS, global_batch_size=4, batch_dim="x", prefetch=prefetch
    )


def comes_to(source: CountedStream, count: int) -> bool:
    """Whether so many elements are read soon, and no more than that."""
    if not soon(lambda: source.count >= count):
        return False
    time.sleep(0.01)  # there is no condition to wait for: nothing more must come
    return source.count == count


def soon(condition: Callable[[], bool]) -> bool:
    """Whether the condition becomes true within a few seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def threads() -> list[threading.Thread]:
    found = threading.enumerate()
    return [thread for thread in found if thread.name.startswith("dtensor-prefetch")]


@pytest.fixture(scope="module", autouse=True)
def little_is_collected() -> None:
    """Iterators that other files of this process left; and what they compiled is left alone."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    assert soon(lambda: not threads())
    yield
    gc.collect()
    assert soon(lambda: not threads())


@pytest.mark.parametrize("ahead", [1, 2, 5, sys.maxsize])
def test_so_many_batches_are_read_ahead_and_no_more(ahead: int) -> None:
    source = CountedStream(labels(40))
    iterator = iter(dataset(source, ahead))
    for taken in range(1, 11):
        np.testing.assert_array_equal(values(next(iterator)), labels(40)[4 * taken - 4 : 4 * taken])
        assert comes_to(source, min(4 * (taken + ahead), 40))
    with pytest.raises(StopIteration):
        next(iterator)


def test_without_prefetch_nothing_is_read_ahead() -> None:
    source = CountedStream(labels(40))
    iterator = iter(dataset(source, None))
    for taken in range(1, 11):
        next(iterator)
        assert source.count == 4 * taken
        assert not threads()


def test_the_next_batch_is_made_while_the_last_one_is_used() -> None:
    read = threading.Event()

    def source() -> Iterator[int]:
        yield from range(4)
        read.set()
        yield from range(4)

    iterator = iter(dataset(source, 1))
    next(iterator)
    assert read.wait(10)


def test_a_loop_that_is_left_ends_the_thread() -> None:
    source = CountedStream(range(1000))
    for _ in dataset(source, 2):
        assert len(threads()) == 1
        break
    assert soon(lambda: not threads())
    assert soon(lambda: source.closed == 1)
    assert source.count <= 4 * 4


def test_close_ends_the_thread_before_it_returns() -> None:
    iterator = iter(dataset(lambda: iter(range(1000)), 2))
    next(iterator)
    iterator.close()
    assert not threads()
    with pytest.raises(StopIteration):
        next(iterator)


def test_the_end_of_the_data_ends_the_thread_before_the_loop_does() -> None:
    assert len(list(dataset(range(40), 2))) == 10
    assert not threads()


def test_an_iterator_that_was_never_used_has_no_thread() -> None:
    iterator = iter(dataset(range(40), 2))
    assert not threads()
    iterator.close()


def test_an_exception_in_the_loop_ends_the_thread() -> None:
    def use() -> None:
        for _ in dataset(CountedStream(range(1000)), 2):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        use()


@pytest.mark.parametrize("prefetch", [None, 2])
def test_an_exception_in_the_source_comes_in_its_place_with_its_traceback(
    prefetch: int | None,
) -> None:
    def broken_source() -> Iterator[int]:
        yield from range(9)
        raise OSError("disk is gone")

    iterator = iter(dataset(broken_source, prefetch))
    np.testing.assert_array_equal(values(next(iterator)), range(4))
    np.testing.assert_array_equal(values(next(iterator)), range(4, 8))
    with pytest.raises(OSError, match="disk is gone") as caught:
        next(iterator)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "broken_source"
    assert names[0] == "test_an_exception_in_the_source_comes_in_its_place_with_its_traceback"
    with pytest.raises(StopIteration):
        next(iterator)
    assert not threads()


def test_even_an_exit_in_the_source_comes_to_the_user() -> None:
    def leaving() -> Iterator[int]:
        yield from range(4)
        sys.exit(3)

    iterator = iter(dataset(leaving, 1))
    next(iterator)
    with pytest.raises(SystemExit):
        next(iterator)


def test_an_exception_when_the_source_closes_comes_to_the_user() -> None:
    def source() -> Iterator[int]:
        try:
            yield from range(4)
        finally:
            raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close"):
        list(dataset(source, 1))


def test_a_taken_batch_is_not_kept_alive() -> None:
    read = threading.Event()
    go_on = threading.Event()

    def source() -> Iterator[int]:
        yield from range(4)
        read.set()
        go_on.wait()
        yield from range(4)

    iterator = iter(dataset(source, 1))
    batch = weakref.ref(next(iterator))
    assert read.wait(10)
    gc.collect()
    assert batch() is None
    go_on.set()


@pytest.mark.parametrize("stuck", ["stuck in a read", "waiting for its user"])
def test_the_interpreter_ends_though_a_thread_runs(stuck: str) -> None:
    program = f"""
import threading, time
from tests.py.runtime.data.sources import MESH, ROWS
from dtensor.runtime.data import prefetch
from dtensor.runtime.data.dataset import DTensorDataset

prefetch._SECONDS = 0.5  # whoever is stuck is not waited for longer
reached = threading.Event()

def source():
    yield from range(8)
    reached.set()
    if {stuck == "stuck in a read"}:
        threading.Event().wait()
    yield from range(1000)

data = DTensorDataset(source, mesh=MESH, layouts=ROWS, global_batch_size=4, prefetch=3)
iterator = iter(data)
next(iterator), next(iterator)
reached.wait()
print("done", flush=True)
"""
    done = run_python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_pass_whose_source_is_stuck_is_closed_and_cannot_be_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefetch, "_SECONDS", 0.1)
    reached, go_on = threading.Event(), threading.Event()

    def source() -> Iterator[int]:
        yield from range(4)
        reached.set()
        go_on.wait()
        yield from range(8)

    iterator = iter(dataset(source, 1))
    next(iterator)
    assert reached.wait(10)
    state = iterator.state()
    with pytest.raises(RuntimeError, match="the thread that reads ahead is still reading"):
        iterator.restore(state)
    iterator.close()
    go_on.set()


def test_in_a_forked_process_the_thread_is_missed() -> None:
    program = """
import os
from dtensor.runtime.data.prefetch import ReadAhead

ahead = ReadAhead((number for number in range(9)), 2)
print(next(ahead), flush=True)
if not (child := os.fork()):
    try:
        next(ahead)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    done = run_python(program)
    assert done.stdout.splitlines() == [
        "0",
        "the thread that reads ahead is gone: a forked process must make its own iterator",
    ]


def test_the_end_of_the_program_waits_for_a_read_that_computes() -> None:
    # A thread that comes back from XLA when there is no interpreter any more ends the process.
    program = """
import threading, time
import jax, numpy as np
from dtensor.runtime.data.prefetch import ReadAhead

reading = threading.Event()

def wait():
    reading.set()
    time.sleep(3)
    return np.float32(1)

slow = jax.jit(lambda: jax.pure_callback(wait, jax.ShapeDtypeStruct((), np.float32)))

def source():
    yield 0
    yield jax.block_until_ready(slow())

ahead = ReadAhead(source(), 2)
next(ahead)
reading.wait()
print("done", flush=True)
"""
    done = run_python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    flags = "--xla_force_host_platform_device_count=8"
    return fresh.run(["-c", program], env=os.environ | {"XLA_FLAGS": flags}, timeout=60)
