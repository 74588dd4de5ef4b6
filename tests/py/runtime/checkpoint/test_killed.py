"""A process that is killed while it saves leaves the previous checkpoint or the next, whole."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from dtensor.dialect.layout import Layout
from dtensor.runtime.checkpoint.named import list_checkpoint, name_based_restore, name_based_save
from dtensor.runtime.checkpoint.series import latest_checkpoint
from tests.py import fresh
from tests.py.runtime.checkpoint.arrays import mesh_8, put, whole
from tests.py.runtime.clients.launching import ORBAX

CHILD = Path(__file__).with_name("killed_child.py")
PARTS = (0.1, 0.35, 0.6, 0.85)  # of the time of a save, after one is done


@pytest.mark.slow
def test_a_killed_save_leaves_one_of_the_two_whole(tmp_path: Path) -> None:
    children: list[fresh.Program] = []
    outs: list[Path] = []
    saved: list[int] = []
    try:
        for number, part in enumerate(PARTS):
            words = [str(CHILD), str(tmp_path / f"{number}" / "c")]
            outs.append(tmp_path / f"{number}.out")
            outs[-1].touch()
            err = outs[-1].with_suffix(".err")
            children.append(fresh.start(words, outs[-1], err, env=os.environ, imports=ORBAX))
            if number % 2:  # two at a time
                saved.append(kill_in_the_middle(children[-2], PARTS[number - 1], outs[-2]))
                saved.append(kill_in_the_middle(children[-1], part, outs[-1]))
    finally:
        for child in children:
            child.kill()
            child.wait()
    for number, done in enumerate(saved):
        folder = tmp_path / f"{number}"
        path = folder / "c"
        names = list(list_checkpoint(path))
        assert names[1] in (f"save {done}", f"save {done + 1}")
        assert latest_checkpoint(folder) == str(path)
        layout = Layout([None, "z"], mesh_8())
        values = whole(name_based_restore(mesh_8(), path, {"a": layout})["a"])
        held = int(names[1].split()[1])
        np.testing.assert_array_equal(values, np.full((512, 10240), 1 + held % 2, np.float32))
        name_based_save(mesh_8(), path, {"b": put(np.zeros(8), ["z"], mesh_8())})
        assert len(os.listdir(path)) == 1  # what the killed one left is gone


def kill_in_the_middle(child: fresh.Program, part: float, out: Path) -> int:
    """Kill a child `part` of the way through a save; the number of the last one it had done."""
    wait_for_saves(child, out, 1)
    start = time.monotonic()
    wait_for_saves(child, out, 2)
    time.sleep(part * (time.monotonic() - start))
    child.kill()
    child.wait()
    return len(out.read_text().splitlines())


def wait_for_saves(child: fresh.Program, out: Path, count: int) -> None:
    """Wait until a child has printed so many lines."""
    while out.read_text().count("\n") < count:
        assert child.poll() is None, out.with_suffix(".err").read_text()
        time.sleep(0.002)
