"""Saves over and over to PATH, until it is killed; prints the number of each save done."""

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402

from dtensor.runtime.checkpoint.named import name_based_save  # noqa: E402
from tests.py.runtime.checkpoint.arrays import mesh_8, put  # noqa: E402

path = Path(sys.argv[1])
mesh = mesh_8()
arrays = {n: put(np.full((512, 10240), n, np.float32), ["z", None], mesh) for n in (1, 2)}
number = 0
while True:
    number += 1
    # Which of the two arrays it holds tells one save from the next: 20 MB each.
    name_based_save(mesh, path, {"a": arrays[1 + number % 2], f"save {number}": arrays[1]})
    print(number, flush=True)
