"""A process that is killed while it saves leaves the previous checkpoint or the next, whole."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dtensor.dialect.layout import Layout
from dtensor.runtime.checkpoint.named import list_checkpoint, name_based_restore, name_based_save
from dtensor.runtime.checkpoint.series import latest_checkpoint
from tests.py.runtime.checkpoint.arrays import mesh_8, put, whole

CHILD = Path(__file__).with_name("killed_child.py")
ROOT = Path(__file__).parents[4]
PARTS = (0.1, 0.35, 0.6, 0.85)  # of the time of a save, after one is done


@pytest.mark.slow
def test_a_killed_save_leaves_one_of_the_two_whole(tmp_path: Path) -> None:
    children: list[subprocess.Popen[str]] = []
    try:
        for number, part in enumerate(PARTS):
            words = [sys.executable, str(CHILD), str(tmp_path / f"{number}" / "c")]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            pipe = subprocess.PIPE
            children.append(subprocess.Popen(words, stdout=pipe, text=True, env=environment))
            if number % 2:  # two at a time
                kill_in_the_middle(children[-2], PARTS[number - 1])
                kill_in_the_middle(children[-1], part)
    finally:
        for child in children:
            child.kill()
            child.wait()
    for number, child in enumerate(children):
        folder = tmp_path / f"{number}"
        done = child.last_save  # type: ignore[attr-defined]
        path = folder / "c"
        names = list(list_checkpoint(path))
        assert names[1] in (f"save {done}", f"save {done + 1}")
        assert latest_checkpoint(folder) == str(path)
        layout = Layout([None, "z"], mesh_8())
        values = whole(name_based_restore(mesh_8(), path, {"a": layout})["a"])
        saved = int(names[1].split()[1])
        np.testing.assert_array_equal(values, np.full((1024, 10240), 1 + saved % 2, np.float32))
        name_based_save(mesh_8(), path, {"b": put(np.zeros(8), ["z"], mesh_8())})
        assert len(os.listdir(path)) == 1  # what the killed one left is gone


def kill_in_the_middle(child: "subprocess.Popen[str]", part: float) -> None:
    """Kill a child `part` of the way through a save, and note the last one it had done."""
    assert child.stdout is not None
    child.stdout.readline()
    start = time.monotonic()
    child.stdout.readline()
    time.sleep(part * (time.monotonic() - start))
    os.kill(child.pid, signal.SIGKILL)
    rest = child.stdout.read().split()
    child.stdout.close()
    child.wait()
    child.last_save = int(rest[-1]) if rest else 2  # type: ignore[attr-defined]
