"""Several clients run programs and compare their shards with one device."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.py.several.__main__ import _unlike

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = ["-m", "dtensor.tools.dtensor_launch", "-n", "2", "--devices-per-client", "4"]


@pytest.mark.slow
def test_forms_and_random_programs_are_right_on_two_clients() -> None:
    command = [*CLIENTS, "-m", "tests.py.several", "forms", "random", "--most", "3"]
    done = subprocess.run(
        [sys.executable, *command, "--names", "roll", "argmax"],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "[0] 3 programs on 8 x cpu: all right" in done.stdout
    assert "[0] roll: right" in done.stdout


def test_what_differs_is_seen() -> None:
    whole = np.array([1.0, np.nan, -np.inf, 4.0], np.float32)
    assert _unlike(whole.copy(), whole, whole) == ""
    for place, value in ((0, 1.1), (1, 0.0), (2, np.inf), (3, np.nan)):
        wrong = whole.copy()
        wrong[place] = value
        assert "where one device has" in _unlike(wrong, whole, whole)
    assert "a shard is float32 (2,), not float32 (4,)" in _unlike(whole[:2], whole, whole)
    numbers = np.arange(3)
    assert _unlike(numbers + np.array([0, 0, 1]), numbers, numbers)
