"""More steps of CPU devices are begun than they have threads for, and all of them end."""

import os

import pytest

from tests.py import fresh

PROGRAM = """
import sys, threading
import jax
import numpy as np
import dtensor

dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=8)
mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
x = dtensor.copy_to_mesh(np.ones((13, 5), np.float32), dtensor.Layout(["x", None], mesh))
total = dtensor.jit(lambda x: x.sum(0))
steps = {"to_jax": x.to_jax, "jit": lambda: total(x)}


def begin():
    for _ in range(int(sys.argv[3])):
        steps[sys.argv[1]]()


steps[sys.argv[1]]()
threads = [threading.Thread(target=begin) for _ in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(float(total(x).unpack()[0][0]))
"""


@pytest.mark.parametrize(
    ("step", "threads", "times"),
    [("to_jax", 1, 500), ("jit", 1, 500), ("jit", 12, 300), ("jit", 64, 40)],
)
def test_steps_that_nobody_waits_for(step: str, threads: int, times: int) -> None:
    words = ["-c", PROGRAM, step, str(threads), str(times)]
    done = fresh.run(words, env=os.environ, timeout=30)  # XLA ends the process after 40 s
    assert done.stdout == "13.0\n", done.stderr[-2000:]
